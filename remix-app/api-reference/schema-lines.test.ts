import { expect, test } from "vitest";
import { buildCurlCommand } from "./describe.ts";
import type { DescribedOperation, Schema } from "./documents.ts";
import { describeType, schemaLines } from "./schema-lines.ts";

const resolve = () => ({ type: "object", properties: { id: { type: "string", format: "uuid" } }, required: ["id"] });

test("lists the names, types, limits and nested members of an object schema", () => {
  const shape = {
    type: "object",
    required: ["items"],
    properties: {
      items: { type: "array", minItems: 1, maxItems: 100, items: { $ref: "#/components/schemas/Item" } },
      limit: { type: "integer", minimum: 1, default: 50 },
      state: { anyOf: [{ enum: ["active", "revoked"] }, { type: "null" }] },
    },
  };
  expect(schemaLines(shape, resolve)).toEqual([
    {
      name: "items",
      type: "array of object",
      required: true,
      notes: ["1–100 items"],
      children: [{ name: "id", type: "uuid", required: true, notes: [], children: [] }],
    },
    { name: "limit", type: "integer", required: false, notes: ["at least 1", "default 50"], children: [] },
    { name: "state", type: '"active" | "revoked" or null', required: false, notes: [], children: [] },
  ]);
});

test("separates an array's limits from its description, and uses the singular for one item", () => {
  const schema = { properties: { ids: { type: "array", minItems: 1, description: "The IDs." } } };
  expect(schemaLines(schema, () => ({}))).toMatchObject([{ notes: ["at least 1 item"], description: "The IDs." }]);
});

test("lists the alternatives of an object schema one by one", () => {
  const either: Schema = {
    oneOf: [
      { type: "object", properties: { a: {} } },
      { type: "object", properties: { b: {} } },
    ],
  };
  expect(schemaLines(either, resolve).map(({ children }) => children.map(({ name }) => name))).toEqual([["a"], ["b"]]);
  expect(describeType(either, resolve)).toBe("object");
});

test("quotes the body of an example command for the shell and takes secrets from the environment", () => {
  const operation: DescribedOperation = {
    operationId: "x",
    tags: ["x"],
    summary: "x",
    security: [{ session: [] }, { bearer: [] }],
    parameters: [
      { name: "id", in: "path", required: true, schema: {}, example: "1" },
      { name: "X-Platform-Workspace-Id", in: "header", required: true, schema: {} },
    ],
    requestBody: { content: { "application/json": { schema: {}, example: { name: "Ada's" } } } },
    responses: {},
  };
  expect(buildCurlCommand(operation, { method: "POST", url: "https://a.test/{id}" })).toBe(
    [
      "curl -X POST 'https://a.test/1'",
      '-H "Authorization: Bearer $ACCESS_TOKEN"',
      '-H "X-Platform-Workspace-Id: $WORKSPACE_ID"',
      '-H "Content-Type: application/json"',
      `-d '{\n  "name": "Ada'\\''s"\n}'`,
    ].join(" \\\n  "),
  );
});
