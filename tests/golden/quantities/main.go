// What k8s.io/apimachinery makes of quantities: JSON strings in, one a line; a JSON array with one case a line out.
// To repeat: jq -c '.[].text' ../quantities.json | go run . > again.json && cmp again.json ../quantities.json
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/api/resource"
)

type reading struct {
	Text  string `json:"text"`
	OK    bool   `json:"ok"`
	Milli *int64 `json:"milli,omitempty"`
	Value *int64 `json:"value,omitempty"`
}

func main() {
	texts, between := json.NewDecoder(os.Stdin), "[\n"
	for texts.More() {
		var found reading
		if err := texts.Decode(&found.Text); err != nil {
			panic(err)
		}
		if quantity, err := resource.ParseQuantity(found.Text); err == nil {
			milli, value := quantity.MilliValue(), quantity.Value()
			found.OK, found.Milli, found.Value = true, &milli, &value
		}
		line, _ := json.Marshal(found)
		fmt.Printf("%s%s", between, line)
		between = ",\n"
	}
	fmt.Println("\n]")
}
