import { z } from "zod";
import { amountText } from "../../remix-app/ui/format-amount.ts";

/** A JSON Schema of draft 2020-12, as used by OpenAPI 3.1. */
export type JsonSchema = Record<string, unknown>;

/** Maps zod's format names to JSON Schema formats. Each of these formats replaces the schema's pattern. */
const telling: Record<string, string> = {
  uuid: "uuid",
  datetime: "date-time",
  date: "date",
  email: "email",
  url: "uri",
};

/**
 * Converts a zod schema to JSON Schema for a request body (`input`) or a response (`output`). A response allows no
 * additional properties.
 * @param options.amountsAreText whether amounts stay text
 * @throws Error for a schema that JSON Schema cannot express
 */
export function jsonSchemaOf(
  schema: z.ZodType,
  io: "input" | "output",
  { amountsAreText = false }: { amountsAreText?: boolean | undefined } = {},
): JsonSchema {
  const { $schema: _, ...made } = z.toJSONSchema(schema, {
    io,
    target: "draft-2020-12",
    // Money is a JsonNumber, which keeps the digits of a JSON number.
    unrepresentable: ({ zodSchema }) =>
      definitionOf(zodSchema).type === "custom" ? { type: "number", minimum: 0 } : "throw",
    override: ({ zodSchema, jsonSchema }) => {
      const texts = jsonSchema as JsonSchema;
      // Amounts are exact strings within the server, and JSON numbers with the same digits outside.
      if (!amountsAreText && (zodSchema as unknown) === amountText) {
        texts.type = "number";
        delete texts.pattern;
      }
      const def = definitionOf(zodSchema);
      const format = "format" in def ? telling[String(def.format)] : undefined;
      if (format) {
        texts.format = format;
        delete texts.pattern;
        delete texts.allOf;
      }
      // `readonly` restricts only the server's own code and means nothing to a client.
      delete texts.readOnly;
    },
  });
  return made;
}

/**
 * Returns a schema's definition. In these callbacks, zod declares core schemas but passes classic schemas, whose `def`
 * is public.
 */
function definitionOf(schema: unknown): z.ZodType["def"] {
  return (schema as z.ZodType).def;
}
