"""The style of the page of a story, for light and dark screens; gangs have twelve colours and a letter each."""

_COLOURS = "".join(
    f".c{number}{{background:hsl({hue} var(--s) var(--l));color:var(--on)}}"
    for number, hue in enumerate((212, 28, 140, 340, 270, 55, 185, 0, 95, 310, 240, 165))
)

STYLE = f"""
:root{{color-scheme:light dark;--bg:#fff;--fg:#1c2026;--quiet:#667;--line:#d9dde3;--track:#f3f5f8;--s:62%;--l:48%;
--on:#fff;--good:#1a7f4b;--bad:#c0322b;--wait:#b9c0ca;--stale:#e0902f;--done:#4a83c9}}
@media (prefers-color-scheme:dark){{:root{{--bg:#14171c;--fg:#e5e8ec;--quiet:#98a1ae;--line:#333a45;--track:#1d222a;
--s:52%;--l:44%;--good:#35b06f;--bad:#f0655c;--wait:#4c5563;--stale:#d08a35;--done:#5b93d6}}}}
*{{box-sizing:border-box}}
body{{margin:0 auto;max-width:80rem;padding:1rem 1.25rem;background:var(--bg);color:var(--fg);
font:15px/1.45 system-ui,sans-serif}}
h1{{font-size:1.5rem;margin:.2rem 0}}h3{{margin:1.6rem 0 .5rem;font-size:1.05rem}}
h4{{margin:0 0 .3rem;font-size:.85rem;font-weight:600}}
.quiet{{color:var(--quiet);font-size:.86em}}code{{font-size:.9em}}
.badge{{padding:.15rem .6rem;border-radius:1rem;color:#fff;font-weight:600}}
.badge.good{{background:var(--good)}}.badge.bad{{background:var(--bad)}}b.bad{{color:var(--bad);font-weight:600}}
.broken{{border-left:4px solid var(--bad);padding:.3rem .8rem;margin:.6rem 0;overflow-wrap:anywhere}}
.lanes{{display:grid;grid-template-columns:minmax(7rem,14rem) 1fr;gap:3px 8px;align-items:center}}
.label{{overflow:hidden;text-overflow:ellipsis;white-space:nowrap;font-size:.86rem}}
.track{{position:relative;height:22px;background:var(--track);border-radius:3px}}
.axis{{background:none;height:18px}}
.tick{{position:absolute;font-size:.7rem;color:var(--quiet);border-left:1px solid var(--line);padding-left:3px}}
.seg{{position:absolute;top:3px;height:16px;border-radius:2px;background:var(--wait)}}
.seg.Scheduled,.pill.Scheduled{{background:var(--good)}}.seg.Stale,.pill.Stale{{background:var(--stale)}}
.seg.Completed,.pill.Completed{{background:var(--done)}}.seg.Invalid,.pill.Invalid{{background:var(--bad)}}
.seg.alive{{background:var(--done);opacity:.45}}
.mark{{position:absolute;top:1px;font:normal 11px/20px system-ui,sans-serif;transform:translateX(-50%);cursor:default}}
.mark.evict,.mark.Failed{{color:#fff;background:var(--bad);border-radius:2px;padding:0 2px;line-height:14px;
top:4px;z-index:1}}
.mark.fault{{color:var(--stale)}}
.mark.judge{{color:var(--quiet)}}.mark.bad{{color:var(--bad)}}
.pill{{padding:0 .5rem;border-radius:1rem;background:var(--wait);color:#fff;font-size:.85em}}
.plan{{display:flex;flex-wrap:wrap;gap:10px}}
.rack{{border:1px solid var(--line);border-radius:6px;padding:.5rem .6rem}}
.node{{display:flex;flex-wrap:wrap;gap:2px;align-items:center;max-width:21rem;margin:2px 0}}
.node .name{{min-width:8.5rem;font-size:.82rem}}
.box{{display:inline-block;width:1.25rem;height:1.25rem;line-height:1.25rem;border-radius:3px;text-align:center;
font-size:.72rem;font-weight:600}}
.box.free{{border:1px dashed var(--line)}}.box.others{{background:var(--wait);color:var(--on)}}.box.going{{opacity:.45}}
{_COLOURS}
.wide{{overflow-x:auto}}
table{{border-collapse:collapse;width:100%;font-size:.87rem}}
th{{text-align:left;color:var(--quiet);font-weight:600;padding:.25rem .6rem .25rem 0;white-space:nowrap}}
td:first-child,.story td:nth-child(2){{white-space:nowrap}}
td{{border-top:1px solid var(--line);padding:.25rem .6rem .25rem 0;vertical-align:top}}
.story td:first-child{{text-align:right;font-variant-numeric:tabular-nums}}
.story td:last-child{{overflow-wrap:anywhere}}
tr.fault td{{color:var(--stale)}}tr.judge td{{font-weight:600}}tr.cluster td{{color:var(--quiet)}}
figure{{margin:.4rem 0}}figcaption{{font-size:.86rem}}
svg{{width:100%;max-width:48rem;height:60px;background:var(--track);border-radius:3px}}
polyline{{fill:none;stroke-width:2;vector-effect:non-scaling-stroke}}
.has{{stroke:var(--good)}}.due{{stroke:var(--quiet);stroke-dasharray:5 4}}
summary{{cursor:pointer;font-weight:600;margin:1rem 0 .4rem}}
@media print{{details{{display:block}}}}
""".strip()
