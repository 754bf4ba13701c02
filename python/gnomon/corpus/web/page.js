// The page of a corpus. All that comes from the corpus is set as text, never as markup.
const byId = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const COLOURS = ["#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f"];
const TABS = ["text", "outline", "graph", "sessions"];
let items = [], current = -1, cursor = "", asked = null, pending = 0;

function make(tag, attributes = {}, ...children) {
  const made = tag.startsWith("svg:")
    ? document.createElementNS(SVG, tag.slice(4)) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") made.addEventListener("click", value);
    else if (value !== null && value !== false) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

async function get(path, parameters) {
  const address = new URL(`api/${path}`, document.baseURI);
  for (const [name, value] of Object.entries(parameters || {}))
    if (value !== "" && value != null) address.searchParams.set(name, value);
  const answer = await fetch(address, { headers: { Accept: "application/json" } });
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.message || answer.statusText);
  return body;
}

// Marks count code points; a JavaScript string counts UTF-16 units.
function highlighted(text, marks) {
  const characters = Array.from(text), parts = [];
  let at = 0;
  for (const [start, end] of marks || []) {
    parts.push(characters.slice(at, start).join(""));
    parts.push(make("mark", {}, characters.slice(start, end).join("")));
    at = end;
  }
  parts.push(characters.slice(at).join(""));
  return parts;
}

const link = (text, act, extra = {}) =>
  make("button", { type: "button", class: "link", onclick: act, ...extra }, text);

function heading(item) {
  return [item.title, ...(item.heading || [])].filter(Boolean).join(" › ") || item.path;
}

function passage(item, number) {
  const lines = item.lines ? `, lines ${item.lines[0]}–${item.lines[1]}` : "";
  const score = item.score
    ? `score ${item.score.value.toPrecision(5)} = ` + (item.score.parts || [])
      .map((part) => `${part.name} ${part.value.toPrecision(4)}`).join(" + ") : "";
  return make("li", { "data-id": item.chunk_id, class: item.relaxed ? "relaxed" : null },
    make("h3", {}, link(heading(item), () => choose(number, true))),
    make("p", { class: "place" }, `${item.source}/${item.path}${lines}` +
      (item.relaxed ? ` · relaxed: ${item.relaxed}` : "")),
    make("pre", {}, ...highlighted(item.excerpt || "", item.marks)),
    score ? make("p", { class: "score" }, score) : null,
    names(item));
}

function names(item) {
  if (!(item.entities || []).length) return null;
  return make("ul", { class: "names", "aria-label": "Names in this passage" },
    ...item.entities.map((one) => make("li", {}, link(one.id, () => graph(one.id)))));
}

function report(told) {
  const rows = [];
  const add = (name, value) => rows.push(make("dt", {}, name), make("dd", {}, value));
  if ((told.why || []).length) add("chosen by", told.why.join("; "));
  if ((told.terms || []).length)
    add("terms", told.terms.map((one) => `${one.term} (${one.df})`).join(", "));
  for (const step of told.fallbacks || []) add("instead", `${step.step}: ${step.why}`);
  if ((told.filters_applied || []).length) add("filters", told.filters_applied.join("; "));
  if (told.no_hit) {
    const near = (told.no_hit.nearest || [])
      .map((one) => `${one.term} → ${one.instead.join(", ")}`).join("; ");
    add("nothing because", told.no_hit.reason + (told.no_hit.guilty || []).map((g) => `: ${g}`).join(""));
    if (near) add("spelt alike", near);
    if (told.no_hit.advice) add("advice", told.no_hit.advice);
  }
  if (told.problem) add("problem", `${told.problem.message} ${told.problem.remedy || ""}`);
  if ((told.notes || []).length) add("notes", told.notes.join("; "));
  byId("report").replaceChildren(...rows);
}

async function search(more = false) {
  const query = byId("query").value.trim(), mode = byId("mode").value;
  if (!query) return;
  if (!more) { asked = { q: query, mode }; cursor = ""; }
  const turn = ++pending;
  byId("status").textContent = "Searching…";
  let answer;
  try {
    answer = await get("search", { ...asked, cursor });
  } catch (error) {
    if (turn === pending) byId("status").textContent = `That did not work: ${error.message}`;
    return;
  }
  if (turn !== pending) return;  // a later question overtook this one
  if (!more) {
    items = []; current = -1;
    byId("results").replaceChildren();
    history.replaceState(null, "", `#${new URLSearchParams(asked)}`);
  }
  for (const item of answer.items || []) {
    byId("results").append(passage(item, items.length));
    items.push(item);
  }
  const told = answer.report;
  cursor = told.cursor || "";
  byId("more").hidden = !cursor;
  const whole = told.exhaustive ? "" : " (best of more)";
  byId("status").textContent = `${items.length} of ${told.total ?? 0} shown${whole}, mode ${told.mode || asked.mode}`;
  report(told);
}

function choose(number, open) {
  if (number < 0 || number >= items.length) return;
  const entries = byId("results").children;
  if (current >= 0) entries[current].removeAttribute("aria-current");
  current = number;
  entries[number].setAttribute("aria-current", "true");
  entries[number].querySelector("button").focus({ preventScroll: true });
  entries[number].scrollIntoView({ block: "nearest" });
  if (open) read(items[number].chunk_id, items[number]);
}

function show(name) {
  for (const tab of TABS) {
    byId(tab).hidden = tab !== name;
    byId(`tab-${tab}`).setAttribute("aria-selected", String(tab === name));
    byId(`tab-${tab}`).setAttribute("tabindex", tab === name ? "0" : "-1");
  }
}

async function fill(name, work) {
  show(name);
  const place = byId(name);
  place.replaceChildren(make("p", { class: "hint" }, "Loading…"));
  try {
    place.replaceChildren(...await work());
  } catch (error) {
    place.replaceChildren(make("p", { class: "hint" }, `That did not work: ${error.message}`));
  }
}

function read(target, item = null, around = 1) {
  return fill("text", async () => {
    const answer = await get("read", { target, around });
    const parts = (answer.items || []).map((one) => make("article", {},
      make("h3", {}, heading(one)),
      make("p", { class: "place" }, `${one.source}/${one.path} bytes ${one.span[0]}–${one.span[1]}, revision ${(one.revision || "").slice(0, 12)}`),
      make("pre", {}, ...highlighted(one.excerpt || "",
        item && one.chunk_id === item.chunk_id && one.excerpt === item.excerpt ? item.marks : one.marks)),
      names(one)));
    if (answer.report.problem) parts.push(make("p", { class: "hint" }, answer.report.problem.message));
    const first = (answer.items || [])[0];
    if (first) parts.unshift(make("p", {},
      link("Outline of this document", () => outline(first)), " · ",
      link("More around it", () => read(target, item, around + 3))));
    return parts;
  });
}

function outline(item) {
  return fill("outline", async () => {
    const answer = await get("outline", { target: item.doc_id ? `doc:${item.doc_id}` : item.path });
    const root = make("ul", { class: "tree" });
    const open = [[-1, root]];
    for (const line of answer.lines || []) {
      while (open.length > 1 && open[open.length - 1][0] >= line.level) open.pop();
      const below = make("ul", { class: "tree" });
      const entry = make("li", {}, link(line.title || "(start)", () => read(line.id)), below);
      open[open.length - 1][1].append(entry);
      open.push([line.level, below]);
    }
    return [make("h3", {}, `${item.source || ""}/${item.path}`), root,
      answer.report.cursor ? make("p", { class: "hint" }, "There are more sections.") : null]
      .filter(Boolean);
  });
}

function graph(node) {
  return fill("graph", async () => {
    const answer = await get("graph", { node });
    if (!answer.edges.length)
      return [make("p", { class: "hint" }, answer.message || `Nothing is known of ${node}.`)];
    return [make("h3", {}, answer.node), drawing(answer), edges(answer)];
  });
}

function drawing({ node, edges: found }) {
  const others = [], kinds = [...new Set(found.map((edge) => edge.relation))].sort();
  for (const edge of found) for (const end of [edge.source, edge.target])
    if (end !== node && !others.includes(end)) others.push(end);
  const place = new Map([[node, [400, 300]]]);
  others.forEach((other, number) => {
    const angle = 2 * Math.PI * number / others.length - Math.PI / 2;
    const radius = others.length > 14 && number % 2 ? 150 : 235;
    place.set(other, [400 + 1.35 * radius * Math.cos(angle), 300 + radius * Math.sin(angle)]);
  });
  const drawn = make("svg:svg", { viewBox: "0 0 800 600", role: "group", "aria-label": `What is next to ${node}` });
  for (const edge of found) {
    const [a, b] = [place.get(edge.source), place.get(edge.target)];
    if (!a || !b) continue;
    const line = make("svg:line", { x1: a[0], y1: a[1], x2: b[0], y2: b[1],
      stroke: COLOURS[kinds.indexOf(edge.relation) % COLOURS.length] });
    line.append(make("svg:title", {}, `${edge.source} ${edge.relation} ${edge.target}`));
    drawn.append(line);
  }
  for (const [name, [x, y]] of place) {
    const label = name.length > 30 ? `${name.slice(0, 29)}…` : name;
    const point = make("svg:g", { role: "button", tabindex: "0", "aria-label": name, "data-node": name },
      make("svg:circle", { cx: x, cy: y, r: name === node ? 11 : 7 }),
      make("svg:text", { x, y: y - 12, "text-anchor": "middle" }, label),
      make("svg:title", {}, name));
    const act = () => (/^(section|doc):/.test(name) ? read(name) : graph(name));
    point.addEventListener("click", act);
    point.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); act(); }
    });
    drawn.append(point);
  }
  kinds.forEach((kind, number) => drawn.append(
    make("svg:rect", { x: 8, y: 8 + 16 * number, width: 10, height: 10, fill: COLOURS[number % COLOURS.length] }),
    make("svg:text", { x: 24, y: 17 + 16 * number }, kind)));
  return drawn;
}

function edges({ edges: found }) {
  return make("ul", {}, ...found.map((edge) => make("li", {},
    `${edge.source} ${edge.relation} ${edge.target} `,
    edge.chunk_id ? link("evidence", () => read(edge.chunk_id)) : "")));
}

function sessions() {
  return fill("sessions", async () => {
    const answer = await get("sessions");
    if (!answer.sessions.length)
      return [make("p", { class: "hint" }, "No session is stored. gnomon serve --sessions keeps them.")];
    return [make("ul", {}, ...answer.sessions.map((one) => make("li", {},
      link(one.id, () => replay(one.id)), ` ${one.calls} calls`)))];
  });
}

function replay(id) {
  return fill("sessions", async () => {
    const answer = await get("session", { id });
    let step = 0;
    const shown = make("div", { "aria-live": "polite" });
    const turn = (way) => {
      step = Math.min(Math.max(step + way, 0), answer.calls.length - 1);
      const call = answer.calls[step];
      shown.replaceChildren(make("h3", {}, `${step + 1} of ${answer.calls.length}: ${call.tool}`),
        make("pre", {}, JSON.stringify(call.args, null, 1)),
        make("p", { class: "hint" }, call.same === false
          ? "The corpus has changed: this call finds other passages now."
          : call.same === true ? "Replayed: it finds the same passages." : ""),
        make("ol", {}, ...(call.items || []).map((item) => make("li", {},
          link(heading(item), () => read(item.chunk_id)),
          make("pre", {}, ...highlighted(item.excerpt || "", item.marks))))));
    };
    if (answer.calls.length) turn(0);
    return [make("p", {}, link("All sessions", sessions), " · ",
      make("button", { type: "button", onclick: () => turn(-1) }, "Previous"), " ",
      make("button", { type: "button", onclick: () => turn(1) }, "Next")), shown];
  });
}

byId("search").addEventListener("submit", (event) => { event.preventDefault(); search(); });
byId("more").addEventListener("click", () => search(true));
for (const tab of TABS) byId(`tab-${tab}`).addEventListener("click", () => open(tab));

function open(tab) {
  if (tab === "sessions") return sessions();
  if (tab === "outline" && current >= 0) return outline(items[current]);
  if (tab === "graph" && current >= 0 && (items[current].entities || []).length)
    return graph(items[current].entities[0].id);
  show(tab);
}

document.querySelector('[role="tablist"]').addEventListener("keydown", (event) => {
  const way = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!way) return;
  const at = TABS.findIndex((tab) => byId(`tab-${tab}`) === document.activeElement);
  const next = TABS[(at + way + TABS.length) % TABS.length];
  show(next);
  byId(`tab-${next}`).focus();
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches("input, select, textarea")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const act = {
    "/": () => byId("query").focus(),
    j: () => choose(current + 1), k: () => choose(current - 1),
    o: () => open("outline"), g: () => open("graph"), s: () => open("sessions"),
  }[event.key];
  if (act) { event.preventDefault(); act(); }
});

function fromAddress() {
  const wanted = new URLSearchParams(location.hash.slice(1));
  if (!wanted.get("q")) return false;
  byId("query").value = wanted.get("q");
  if ([...byId("mode").options].some((option) => option.value === wanted.get("mode")))
    byId("mode").value = wanted.get("mode");
  search();
  return true;
}

window.addEventListener("hashchange", fromAddress);
show("text");
get("about").then((about) => {
  byId("corpus").textContent = `${about.documents} documents, ${about.chunks} passages, generation ${about.generation}`;
}).catch(() => {});
if (!fromAddress()) byId("query").focus();
