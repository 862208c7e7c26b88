// A bundle's bytes as areas: groups in groups, as far as there is room for a name.
function squarify(sizes, width, height) {
  // Bruls, Huizing and van Wijk: rows along the shorter side, as long as that makes the boxes squarer. Largest first.
  const scale = (width * height) / sizes.reduce((sum, size) => sum + size, 0);
  let rest = sizes.map((size) => size * scale);
  let [x, y] = [0, 0];
  const boxes = [];
  while (rest.length) {
    const side = Math.min(width, height);
    const worst = (sum, most, least) => Math.max((side * side * most) / (sum * sum), (sum * sum) / (side * side * least));
    let [count, sum] = [1, rest[0]];
    while (count < rest.length && worst(sum + rest[count], rest[0], rest[count]) <= worst(sum, rest[0], rest[count - 1])) sum += rest[count++];
    const depth = sum / side;
    let along = 0;
    for (const area of rest.slice(0, count)) {
      const length = area / depth;
      boxes.push(width >= height ? [x, y + along, depth, length] : [x + along, y, length, depth]);
      along += length;
    }
    if (width >= height) [x, width] = [x + depth, width - depth];
    else [y, height] = [y + depth, height - depth];
    rest = rest.slice(count);
  }
  return boxes;
}

function inBytes(size) {
  if (size >= 1e5) return `${(size / 1e6).toFixed(2)} MB`;
  return size >= 1e3 ? `${(size / 1e3).toFixed(1)} kB` : `${size} B`;
}

/** A path by its file, an operator without its domain: the whole is in the line below. */
function short(name) {
  return name.split("/").at(-1).split(":").at(-1) || name;
}

function treemap(root, place) {
  const [nav, map, status] = [place.querySelector("nav"), place.querySelector(".map"), place.querySelector("p")];
  const hint = status.textContent;
  const LEVELS = 4;
  let path = [root];
  let colours = 0;

  const made = (name, className, text = "") => Object.assign(document.createElement(name), { className, textContent: text });
  const tell = (nodes) => {
    const [name, size, what] = nodes.at(-1);
    const share = ((size / root[1]) * 100).toFixed(size / root[1] < 0.001 ? 3 : 1);
    const within = nodes.slice(1, -1).map((node) => `${node[0]} › `).join("");
    status.textContent = `${within}${name}: ${inBytes(size)}, ${share} %${what && what !== name ? `, ${what}` : ""}`;
  };
  const open = (nodes) => {
    path = nodes;
    draw();
    tell(path);
  };

  /** The largest is not one colour, but its parts each have theirs. */
  const isFrame = (node) => node[3].length > 1 && node[1] > path.at(-1)[1] / 2;

  function box(nodes, [left, top, width, height], within, coloured, at) {
    const [name, size, , parts] = nodes.at(-1);
    const element = made("div", "box");
    const frame = !coloured && isFrame(nodes.at(-1));
    const share = (value, whole) => `${(value / whole) * 100}%`;
    Object.assign(element.style, { left: share(left, within[0]), top: share(top, within[1]), width: share(width, within[0]), height: share(height, within[1]) });
    if (!coloured && !frame) element.style.setProperty("--c", `var(--p${colours++ % 6})`);
    element.style.setProperty("--m", frame ? "14%" : `${26 + 10 * (at % 3)}%`);
    element.addEventListener("pointerover", (event) => (event.stopPropagation(), tell(nodes)));
    element.addEventListener("click", (event) => (event.stopPropagation(), tell(nodes)));
    if (parts.length) {
      // Of whatever size: by the keyboard it must be to be had.
      const button = made("button", width > 44 && height > 20 ? "" : "tiny", short(name));
      button.type = "button";
      button.append(made("span", "", ` ${inBytes(size)}`));
      button.addEventListener("focus", () => tell(nodes));
      button.addEventListener("click", (event) => (event.stopPropagation(), open(nodes)));
      element.append(button);
      const levels = nodes.length - path.length;
      if (levels < LEVELS && width > 60 && height > 44) element.append(inner(nodes, width - 6, height - 25, coloured || !frame));
    } else if (width > 40 && height > 18) element.append(made("span", "", height > 34 ? `${short(name)}\n${inBytes(size)}` : short(name)));
    return element;
  }

  function inner(nodes, width, height, coloured) {
    const parts = nodes.at(-1)[3];
    const area = made("div", "inner");
    const boxes = squarify(parts.map((part) => part[1]), width, height);
    area.append(...parts.map((part, at) => box([...nodes, part], boxes[at], [width, height], coloured, at)));
    return area;
  }

  function draw() {
    const { width, height } = map.getBoundingClientRect();
    colours = 0;
    if (width) map.replaceChildren(inner(path, width, height, false));
    nav.replaceChildren(
      ...path.map((node, at) => {
        const step = made("button", "", node[0]);
        step.type = "button";
        step.disabled = at === path.length - 1;
        step.addEventListener("click", () => open(path.slice(0, at + 1)));
        return step;
      }),
    );
  }

  place.hidden = false;
  place.addEventListener("keydown", ({ key }) => key === "Escape" && path.length > 1 && open(path.slice(0, -1)));
  map.addEventListener("pointerleave", () => (path.length > 1 ? tell(path) : (status.textContent = hint)));
  new ResizeObserver(draw).observe(map);
}

if (globalThis.document?.getElementById("treemap-data")) {
  treemap(JSON.parse(document.getElementById("treemap-data").textContent), document.getElementById("treemap"));
}
