import { readFileSync } from "node:fs";
import path from "node:path";
import { parse } from "yaml";
import { z } from "zod";

const service = z.object({
  image: z.string(),
  environment: z.record(z.string(), z.string()),
  healthcheck: z.object({ test: z.array(z.string()) }).optional(),
  logging: z.object({ driver: z.string() }).optional(),
});
const composeFile = z.object({ services: z.record(z.string(), service) });

/** A service of compose.yaml, with its settings filled in. */
export type ComposeService = z.output<typeof service>;

export const composeFolder = import.meta.dirname;

/**
 * Reads compose.yaml as Docker Compose does, with values for `${NAME}`.
 * @throws Error if a required value is missing
 */
export function readComposeFile(settings: Record<string, string>): Record<string, ComposeService> {
  const text = readFileSync(path.join(composeFolder, "compose.yaml"), "utf8");
  const fill = (value: unknown): unknown => {
    if (typeof value === "string") return interpolate(value, settings);
    if (Array.isArray(value)) return value.map(fill);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, fill(each)]));
  };
  return composeFile.parse(fill(parse(text))).services;
}

/** Replaces `${NAME}`, `${NAME:-default}`, `${NAME?}` and `${NAME:?}`, the forms that compose.yaml uses. */
function interpolate(text: string, settings: Record<string, string>): string {
  return text.replaceAll(/\$\{(\w+)(:-|:\?|\?)?([^}]*)\}/g, (_, name: string, operator = "", rest: string) => {
    const value = settings[name];
    if (operator === ":-") return value || rest;
    if (value === undefined || (operator === ":?" && value === "")) throw new Error(`${name} is not set.`);
    return value;
  });
}
