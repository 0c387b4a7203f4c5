// How the map is looked at: zoom and move by wheel, drag, pinch and keys. Knows boxes and pixels, no gangs.

const EDGE = 0.35; // how much of the view may be emptied by moving
const SIGHT = 0.12; // how far from the edge of the view what is zoomed to is kept

/** The point of the nearest node, for a point of the map. */
export function nearest(root, x, y) {
  const at = (box) => [clamp(x, box.x, box.x + box.w), clamp(y, box.y, box.y + box.h)];
  const far = (box) => Math.hypot(at(box)[0] - x, at(box)[1] - y);
  let box = root;
  while (box?.children?.length) box = box.children.reduce((one, two) => (far(two) < far(one) ? two : one));
  return box && box !== root ? at(box) : [x, y];
}

function clamp(value, least, most) {
  return Math.min(most, Math.max(least, value));
}

/** The camera {k, x, y}: a point p of the map stands at p * k + (x, y) on the screen. */
export class Camera {
  constructor(changed) {
    Object.assign(this, {
      k: 1,
      x: 0,
      y: 0,
      width: 1,
      height: 1,
      root: null,
      wide: 1,
      high: 1,
      most: 50,
      changed,
      timer: 0,
    });
  }

  get now() {
    return {k: this.k, x: this.x, y: this.y};
  }

  /** The view's size and what is in it; keeps looking at the same part. */
  resize(width, height, root) {
    const {k} = this;
    const part =
      this.root && !this.fitted()
        ? {x: (this.width / 2 - this.x) / k / this.wide, y: (this.height / 2 - this.y) / k / this.high}
        : null;
    // The layout changes the root in place, so its size is kept here to know what was looked at.
    Object.assign(this, {width, height, root, wide: root.w || 1, high: root.h || 1});
    if (!part) this.set(this.home());
    else this.set({k, x: width / 2 - part.x * root.w * k, y: height / 2 - part.y * root.h * k});
  }

  /** Where a box stands on the screen. */
  at(box) {
    const {k} = this;
    return {x: box.x * k + this.x, y: box.y * k + this.y, w: box.w * k, h: box.h * k};
  }

  /** Whether the middle of any of these boxes is in sight. */
  sees(boxes) {
    return boxes.some((box) => {
      const {x, y, w, h} = this.at(box);
      return x + w / 2 > 0 && x + w / 2 < this.width && y + h / 2 > 0 && y + h / 2 < this.height;
    });
  }

  /** Look so that a box stands where it stood, as large as it was; at the edge if that is out of sight now. */
  hold(box, {x, y, w, h}) {
    const k = Math.min(this.most, w / box.w);
    const across = Math.min(this.width - 20, Math.max(20, x + w / 2));
    const down = Math.min(this.height - 20, Math.max(20, y + h / 2));
    this.set({k, x: across - (box.x + box.w / 2) * k, y: down - (box.y + box.h / 2) * k});
  }

  home() {
    if (!this.root) return {k: 1, x: 0, y: 0};
    return {k: 1, x: Math.max(0, (this.width - this.wide) / 2), y: 0};
  }

  fitted() {
    const home = this.home();
    return (
      !this.root || (Math.abs(this.k - 1) < 1e-3 && Math.abs(this.x - home.x) < 1 && Math.abs(this.y - home.y) < 1)
    );
  }

  set({k, x, y}) {
    const {root, width, height} = this;
    this.k = Math.min(this.most, Math.max(0.5, k));
    if (root) {
      const wide = root.w * this.k;
      const high = root.h * this.k;
      x = Math.min(width * (1 - EDGE), Math.max(width * EDGE - wide, x));
      y = Math.min(height * (1 - EDGE), Math.max(height * EDGE - high, y));
    }
    this.x = x;
    this.y = y;
    this.changed();
  }

  /** Zoom so that the point (x, y) of the screen stays where it is; inward, the nearest point of a node: on a title, or
   *  between boxes, there would soon be nothing else in sight. */
  zoom(by, x = this.width / 2, y = this.height / 2) {
    const k = Math.min(this.most, Math.max(0.5, this.k * by));
    const [px, py] = [(x - this.x) / this.k, (y - this.y) / this.k];
    const [nx, ny] = by > 1 ? nearest(this.root, px, py) : [px, py];
    if (nx !== px) x = clamp(nx * this.k + this.x, this.width * SIGHT, this.width * (1 - SIGHT));
    if (ny !== py) y = clamp(ny * this.k + this.y, this.height * SIGHT, this.height * (1 - SIGHT));
    this.set({k, x: x - nx * k, y: y - ny * k});
  }

  move(dx, dy) {
    this.set({k: this.k, x: this.x + dx, y: this.y + dy});
  }

  /** The camera that shows a box whole. */
  over(box) {
    if (!box || box.level === -1) return this.home();
    const k = Math.min(this.most, Math.min(this.width / (box.w * 1.04), this.height / (box.h * 1.04)));
    return {k, x: this.width / 2 - (box.x + box.w / 2) * k, y: this.height / 2 - (box.y + box.h / 2) * k};
  }

  /** Go to a box (or home) in a short move; at once for people who asked for less motion. */
  fly(box) {
    cancelAnimationFrame(this.timer);
    const from = this.now;
    const to = this.over(box);
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
      this.set(to);
      return;
    }
    const begin = performance.now();
    const step = (time) => {
      const part = Math.min(1, Math.max(0, (time - begin) / 220));
      const ease = 1 - (1 - part) ** 3;
      const k = from.k * (to.k / from.k) ** ease;
      // The centre moves with the zoom, so that the way is straight on the screen.
      const share = Math.abs(to.k - from.k) < 1e-6 ? ease : (1 / k - 1 / from.k) / (1 / to.k - 1 / from.k);
      const cx = lerp(centre(from.x, from.k, this.width), centre(to.x, to.k, this.width), share);
      const cy = lerp(centre(from.y, from.k, this.height), centre(to.y, to.k, this.height), share);
      this.set(part === 1 ? to : {k, x: this.width / 2 - cx * k, y: this.height / 2 - cy * k});
      if (part < 1) this.timer = requestAnimationFrame(step);
    };
    this.timer = requestAnimationFrame(step);
  }

  stop() {
    cancelAnimationFrame(this.timer);
  }
}

function centre(shift, k, size) {
  return (size / 2 - shift) / k;
}

function lerp(one, two, part) {
  return one + (two - one) * part;
}

/** Listen to wheel and pointers on `element`; on = {point(x, y), leave(), click(x, y), open(x, y)}. */
export function listen(element, camera, on) {
  const down = new Map();
  let moved = 0;
  let spread = 0;
  const at = (event) => {
    const frame = element.getBoundingClientRect();
    return {x: event.clientX - frame.left, y: event.clientY - frame.top};
  };
  element.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      camera.stop();
      const {x, y} = at(event);
      const lines = event.deltaMode === 1 ? 16 : 1;
      if (event.shiftKey) camera.move(-event.deltaX * lines - event.deltaY * lines, 0);
      else camera.zoom(Math.exp(-event.deltaY * lines * (event.ctrlKey ? 0.01 : 0.002)), x, y);
    },
    {passive: false},
  );
  element.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    camera.stop();
    element.setPointerCapture(event.pointerId);
    down.set(event.pointerId, at(event));
    if (down.size === 1) moved = 0;
    spread = 0;
  });
  element.addEventListener("pointermove", (event) => {
    const now = at(event);
    const before = down.get(event.pointerId);
    if (!before) {
      on.point(now.x, now.y);
      return;
    }
    down.set(event.pointerId, now);
    moved += Math.abs(now.x - before.x) + Math.abs(now.y - before.y);
    if (down.size === 1 && moved > 4) {
      element.classList.add("dragging");
      on.leave();
      camera.move(now.x - before.x, now.y - before.y);
    } else if (down.size === 2) {
      const [one, two] = [...down.values()];
      const wide = Math.hypot(one.x - two.x, one.y - two.y);
      if (spread) camera.zoom(wide / spread, (one.x + two.x) / 2, (one.y + two.y) / 2);
      spread = wide;
      moved = 9;
    }
  });
  const up = (event) => {
    if (!down.delete(event.pointerId)) return;
    element.classList.remove("dragging");
    const {x, y} = at(event);
    if (!down.size && moved <= 4 && event.type === "pointerup") on.click(x, y);
  };
  element.addEventListener("pointerup", up);
  element.addEventListener("pointercancel", up);
  element.addEventListener("pointerleave", () => down.size || on.leave());
  element.addEventListener("dblclick", (event) => {
    const {x, y} = at(event);
    on.open(x, y);
  });
}
