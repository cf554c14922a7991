import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { explain, fieldWords } from "./field-words.ts";

test("adds descriptions to undescribed fields at any depth, and keeps existing descriptions", () => {
  const amount = { type: "number" };
  const schema = {
    type: "object",
    properties: {
      limitUsd: { type: "number", description: "Its own." },
      rows: { type: "array", items: { anyOf: [{ type: "object", properties: { costUsd: amount, other: amount } }] } },
    },
  };
  const row = { costUsd: { description: fieldWords.costUsd, type: "number" }, other: amount };
  expect(explain(schema)).toEqual({
    type: "object",
    properties: {
      limitUsd: schema.properties.limitUsd,
      rows: { type: "array", items: { anyOf: [{ type: "object", properties: row }] } },
    },
  });
});

test("every field description is used in one of the OpenAPI documents", () => {
  const said = ["platform", "gateway"].map((area) => readFileSync(`docs/openapi/${area}.json`, "utf8")).join();
  const silent = Object.entries(fieldWords).filter(([, words]) => !said.includes(JSON.stringify(words).slice(1, -1)));
  expect(silent.map(([name]) => name)).toEqual([]);
});
