// Elements out of plain values. Text only ever becomes text.

export const $ = (id) => document.getElementById(id);

/** `el("li", { class: "row" }, "text", other)` */
export function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value !== undefined && value !== null) element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== undefined && child !== null && child !== false));
  return element;
}

/** Brings a list to these rows, each `{ id, stamp, make }`; what has not changed stays, and so do focus and open details. */
export function fill(list, rows) {
  const known = new Map([...list.children].map((row) => [row.dataset.id, row]));
  rows.forEach(({ id, stamp, make }, at) => {
    let row = known.get(String(id));
    known.delete(String(id));
    if (!row || row.dataset.stamp !== stamp) {
      const fresh = make();
      fresh.dataset.id = id;
      fresh.dataset.stamp = stamp;
      if (row) {
        const open = row.querySelector("details")?.open;
        const act = row.contains(document.activeElement) ? document.activeElement.dataset.act : undefined;
        row.replaceWith(fresh);
        if (open) fresh.querySelector("details").open = true;
        if (act) (fresh.querySelector(`[data-act="${act}"]`) ?? fresh.querySelector("button, summary"))?.focus();
      }
      row = fresh;
    }
    if (list.children[at] !== row) list.insertBefore(row, list.children[at] ?? null);
  });
  for (const gone of known.values()) gone.remove();
}
