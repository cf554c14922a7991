import { expect, test } from "vitest";
import { buildSearch, maxTermLength, searchTerm } from "./search-params.ts";

test.each([
  ["?q=a&cursor=x&remove=y", { keep: ["q", "cursor"] }, "?q=a&cursor=x"],
  ["?q=a%26b&cursor=x", { keep: ["q"], add: { cursor: "next" } }, "?q=a%26b&cursor=next"],
  ["?cursor=x", {}, "?"],
])("keeps only the listed parameters of the query %s, and adds new ones", (search, options, expected) => {
  expect(buildSearch(search, options)).toBe(expected);
});

test.each([
  ["", ""],
  ["?q=%20a%00b%20", "ab"],
  [`?q=${"x".repeat(maxTermLength)}`, "x".repeat(maxTermLength)],
  [`?q=${"x".repeat(maxTermLength + 1)}`, "x".repeat(maxTermLength)],
])("reads the search term from the query %j", (search, term) => {
  expect(searchTerm({ url: `http://localhost/list${search}` })).toBe(term);
});
