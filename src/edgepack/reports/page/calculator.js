// What downloads cost by the price lists of the page, as edgepack.reports.cost reckons it: each GB at the price of its tier.
function amount(list, bytes) {
  const gigabytes = bytes / list.gigabyte;
  let below = 0;
  let due = 0;
  for (const [upTo, price] of list.tiers) {
    due += Math.max(0, Math.min(gigabytes, upTo ?? Infinity) - below) * price;
    below = upTo;
  }
  return due;
}

/** As Python writes it. Of two amounts that are as near (an eighth has them), toFixed takes the larger, and Python the even one. */
function money(due) {
  const even = (due * 8) % 4 === 1 ? due - 0.001 : due;
  return even.toFixed(2).replace(/\B(?=(\d{3})+\.)/g, ",");
}

function calculate({ prices, sizes }, form) {
  const number = new Intl.NumberFormat("en-US");
  const value = (name) => Number(form.elements.namedItem(name).value);
  const say = (name, text) => (form.elements.namedItem(name).value = text);
  const devices = Math.round(10 ** value("devices"));
  const updates = value("updates");
  const list = prices[value("provider")];
  const [, bytes] = sizes[value("encoding")];
  say("devices-said", number.format(devices));
  say("updates-said", number.format(updates));
  // Each update is sent within a month of its own.
  say("due", `${money(amount(list, bytes * devices) * updates)} ${list.currency}`);
  const sent = (bytes * devices * updates) / 1e9;
  say("sent", `${number.format(sent < 10 ? Number(sent.toFixed(1)) : Math.round(sent))} GB`);
}

if (globalThis.document?.getElementById("calculator-data")) {
  const data = JSON.parse(document.getElementById("calculator-data").textContent);
  const form = document.getElementById("calculator");
  const fill = (name, names) => form.elements.namedItem(name).replaceChildren(...names.map((each, at) => new Option(each, at)));
  fill("provider", data.prices.map((list) => list.name));
  fill("encoding", data.sizes.map(([name]) => name));
  form.addEventListener("input", () => calculate(data, form));
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  calculate(data, form);
}
