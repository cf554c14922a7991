import { JSDOM } from "jsdom";
import { expect } from "vitest";
import { type SignedInBrowser, tokenOf } from "../../../../scripts/test/people.ts";
import { readStack } from "../../../../scripts/test/stack.ts";

/** Turns "−$1,234.50" into "-1234.5". */
export function canonical(shown: string): string {
  const plain = shown.replace("−", "-").replace(/[$,]/g, "");
  return plain.includes(".") ? plain.replace(/\.?0+$/, "") : plain;
}

/** Reads the exact amount of a cell; null for a dash. */
export function exactAmount(cell: Element | null | undefined): string | null {
  const title = cell?.querySelector(".amount")?.getAttribute("title");
  return title == null ? null : canonical(title);
}

/** Parses what a page shows between its menus. */
export function parsePage(html: string): Document {
  const main = /<main.*<\/main>/s.exec(html)?.[0] ?? "";
  return new JSDOM(main, { url: readStack().base }).window.document;
}

/** Returns the rows of a page's table. */
export function tableOf(page: Document, caption: string): { name: string; cells: Element[] }[] {
  const tables = [...page.querySelectorAll("table")];
  const table = tables.find((each) => each.querySelector("caption")?.textContent === caption);
  return [...(table?.querySelectorAll("tbody tr") ?? [])].map((row) => {
    const name = row.querySelector("th")?.cloneNode(true) as Element;
    for (const below of name.querySelectorAll(".below")) below.remove();
    return { name: name.textContent ?? "", cells: [...row.querySelectorAll("td")] };
  });
}

/** Returns the exact amounts of a page's lists of terms. */
export function figuresOf(page: Document): Record<string, string | null> {
  const terms = [...page.querySelectorAll("dl dt")];
  return Object.fromEntries(terms.map((term) => [term.textContent, exactAmount(term.nextElementSibling)]));
}

/** Returns the texts of a page's lists of terms, by the titles of their cards. */
export function factsOf(page: Document): Record<string, Record<string, string>> {
  const lists = [...page.querySelectorAll("dl")];
  return Object.fromEntries(
    lists.map((list) => [
      list.closest("section")?.querySelector("h2")?.textContent ?? "",
      Object.fromEntries(
        [...list.querySelectorAll("dt")].map((term) => [term.textContent, term.nextElementSibling?.textContent ?? ""]),
      ),
    ]),
  );
}

/** Reads a CSV file without quoted fields. */
export async function rowsOf(browser: SignedInBrowser, path: string): Promise<Record<string, string>[]> {
  const { status, text: file } = await browser.get(path);
  expect([path, status]).toEqual([path, 200]);
  const [head = [], ...rows] = file
    .trim()
    .split("\r\n")
    .map((row) => row.split(","));
  return rows.map((row) => Object.fromEntries(head.map((name, at) => [name, row[at] ?? ""])));
}

/** Reads the API of a workspace without losing digits: numbers become texts. */
export async function readApi(browser: SignedInBrowser, { workspaceId, path }: { workspaceId: string; path: string }) {
  const response = await fetch(new URL(`/api/v1/workspaces/${workspaceId}/ai${path}`, readStack().base), {
    headers: { authorization: `Bearer ${tokenOf(browser)}` },
  });
  expect([path, response.status]).toEqual([path, 200]);
  const keep = (_: string, value: unknown, context?: { source?: string }) =>
    typeof value === "number" ? context?.source : value;
  return JSON.parse(await response.text(), keep as (key: string, value: unknown) => unknown);
}
