import Ajv2020 from "ajv/dist/2020.js";
import { describe, expect, test } from "vitest";
import { areas, documentOf, type Schema } from "./documents.ts";
import { createSample } from "./response-sample.ts";

describe("a response sample", () => {
  test("a response sample contains every member of its schema, with allowed values", () => {
    const sample = createSample(
      {
        type: "object",
        properties: {
          state: { enum: ["active", "revoked"] },
          seats: { type: "integer", minimum: 2, maximum: 9 },
          email: { type: "string" },
          lastUsedAt: { anyOf: [{ type: "string", format: "date-time" }, { type: "null" }] },
          tags: { type: "array", items: { $ref: "#/components/schemas/Tag" } },
        },
      },
      () => ({ type: "string", pattern: "^[0-9]+$" }),
    );
    expect(sample).toEqual({
      state: "active",
      seats: 2,
      email: "ada@example.com",
      lastUsedAt: "2026-11-28T09:30:00.000Z",
      tags: ["1"],
    });
  });

  test("returns no sample for a response without JSON", () => {
    expect(createSample({}, () => ({}))).toBe(undefined);
  });

  test.each(areas)("samples satisfy the schema of each response of the %s", (area) => {
    const { components, paths } = documentOf(area);
    const ajv = new Ajv2020({ strict: false, validateFormats: false });
    ajv.addSchema({ $id: "document", components });
    const absolute = (schema: Schema) =>
      JSON.parse(JSON.stringify(schema).replaceAll('"#/components', '"document#/components')) as object;
    const resolve = (ref: string) => components.schemas[ref.split("/").at(-1) ?? ""] ?? {};
    const faults: string[] = [];
    let checked = 0;
    for (const operation of Object.values(paths).flatMap(Object.values)) {
      for (const { content } of Object.values(operation.responses as Record<string, { content?: Content }>)) {
        const schema = content?.["application/json"]?.schema;
        if (!schema) continue;
        checked += 1;
        if (!ajv.validate(absolute(schema), createSample(schema, resolve))) {
          faults.push(`${operation.operationId}: ${ajv.errorsText()}`);
        }
      }
    }
    expect(faults).toEqual([]);
    expect(checked).toBeGreaterThan(5);
  });
});

type Content = Record<string, { schema?: Schema }>;
