import { GatewayError } from "../http/errors.ts";
import { UnsupportedSchema } from "./check.ts";
import { compileSchema } from "./json-schema.ts";

/** The text of each choice in an answer: null for a refusal, and empty if the choice calls functions. */
export type OutputTexts = readonly (string | null)[];

/** Returns whether an answer conforms to its schema, or undefined if that can't be determined. */
export type AnswerCheck = (texts: OutputTexts) => boolean | undefined;

/**
 * Prepares the check of structured answers against a schema.
 * @returns undefined if the schema can't be checked and isn't strict, so that only the provider enforces it
 * @throws GatewayError `unsupported_schema` if a strict schema can't be checked
 */
export function prepareAnswerCheck(
  { schema, strict }: { schema: unknown; strict?: boolean | null },
  param: string,
): AnswerCheck | undefined {
  let conforms: ReturnType<typeof compileSchema>;
  try {
    conforms = compileSchema(schema);
  } catch (error) {
    if (!(error instanceof UnsupportedSchema)) throw error;
    if (!strict) return undefined;
    const message = `The JSON schema is not supported: ${error.message.slice(0, 256)}`;
    throw new GatewayError("unsupported_schema", { param, message });
  }
  return (texts) => {
    if (texts.length === 0) return undefined;
    const verdicts = texts.map((text) => checkText(text, conforms));
    if (verdicts.includes(false)) return false;
    return verdicts.includes(undefined) ? undefined : true;
  };
}

function checkText(text: string | null, conforms: ReturnType<typeof compileSchema>): boolean | undefined {
  if (text === null) return false;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return false;
  }
  return conforms(value);
}
