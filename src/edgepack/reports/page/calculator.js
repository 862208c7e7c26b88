// What downloads cost by the price lists of the page, as edgepack.reports.cost reckons it: each GB at the price of its tier.
const { prices, sizes } = JSON.parse(document.getElementById("prices").textContent);
const form = document.getElementById("calculator");
const field = (name) => form.elements.namedItem(name);
const fill = (select, names) => select.replaceChildren(...names.map((name, at) => new Option(name, at)));

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

function show() {
  const devices = Math.round(10 ** Number(field("devices").value));
  const updates = Number(field("updates").value);
  const list = prices[Number(field("provider").value)];
  const [, bytes] = sizes[Number(field("encoding").value)];
  const number = new Intl.NumberFormat("en-US");
  document.getElementById("devices-said").textContent = number.format(devices);
  document.getElementById("updates-said").textContent = number.format(updates);
  // Each update is sent within a month of its own.
  const due = amount(list, bytes * devices) * updates;
  const money = new Intl.NumberFormat("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 }).format(due);
  document.getElementById("due").textContent = `${money} ${list.currency}`;
  document.getElementById("sent").textContent = `${number.format(Math.round((bytes * devices * updates) / 1e9))} GB`;
}

fill(field("provider"), prices.map((list) => list.name));
fill(field("encoding"), sizes.map(([name]) => name));
form.addEventListener("input", show);
form.hidden = false;
show();
