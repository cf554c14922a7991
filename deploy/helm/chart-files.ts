import { globSync, readFileSync } from "node:fs";
import path from "node:path";
import { parse } from "yaml";

export const chartFolder = path.join(import.meta.dirname, "gatehouse");

export const readChartFile = (name: string) => readFileSync(path.join(chartFolder, name), "utf8");

/** Returns the text of all templates. */
export const readTemplates = () =>
  globSync("templates/*.{yaml,tpl}", { cwd: chartFolder }).sort().map(readChartFile).join("\n");

/** Reads the values that `helm template` gets, by their file next to the chart. */
export const readValues = (name: string): unknown => parse(readFileSync(path.join(import.meta.dirname, name), "utf8"));

/** Returns the paths of all values that are not objects with members, such as `web.image.tag`. */
export function listKeys(value: unknown, prefix: readonly string[] = []): string[] {
  const members = value && typeof value === "object" && !Array.isArray(value) ? Object.entries(value) : [];
  if (members.length === 0) return [prefix.join(".")];
  return members.flatMap(([name, member]) => listKeys(member, [...prefix, name]));
}

/** Returns the value at a path of {@link listKeys}. */
export function valueAt(values: unknown, key: string): unknown {
  return key.split(".").reduce((value, name) => (value as Record<string, unknown> | undefined)?.[name], values);
}
