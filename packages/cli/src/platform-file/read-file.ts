import { createHash } from "node:crypto";
import { readFile, stat } from "node:fs/promises";
import { isAlias, parseDocument, visit } from "yaml";
import type { z } from "zod";
import { Failure } from "../failure.ts";
import { type Platform, platformSchema } from "./schema.ts";

const maxBytes = 1024 * 1024;
const maxFaults = 10;
const secretName = /secret|password|credential|private|api_?key|token$/i;

/**
 * Reads a file that describes a platform.
 * @returns its normal form, and the SHA-256 of its text
 * @throws Failure
 */
export async function readPlatformFile(file: string): Promise<{ platform: Platform; hash: string }> {
  const found = await stat(file).catch(() => null);
  if (!found?.isFile()) throw new Failure("configuration", `There is no file ${file}.`);
  if (found.size > maxBytes) throw new Failure("configuration", `${file} has more than 1 MiB.`);
  const text = await readFile(file, "utf8");
  const { platform, faults } = parsePlatform(text);
  if (platform) return { platform, hash: createHash("sha256").update(text).digest("hex") };
  const more = faults.length - maxFaults;
  const lines = [...faults.slice(0, maxFaults), ...(more > 0 ? [`and ${more} more`] : [])];
  throw new Failure("configuration", `${file} can’t be used: ${lines.join("; ")}`);
}

/** Parses YAML 1.2. Returns the platform, or null and what is wrong. */
export function parsePlatform(text: string): { platform: Platform | null; faults: readonly string[] } {
  const { data, faults } = parseYaml(text);
  if (faults.length > 0) return { platform: null, faults };
  const parsed = platformSchema.safeParse(data);
  if (parsed.success) return { platform: parsed.data, faults };
  return { platform: null, faults: parsed.error.issues.map(describeIssue) };
}

/**
 * Parses YAML with the core schema, in which NO is a text. Refuses anchors, aliases and tags: a short file with them
 * can become a huge document, and readers could take it for something else.
 */
function parseYaml(text: string): { data: unknown; faults: readonly string[] } {
  try {
    const document = parseDocument(text, {
      version: "1.2",
      schema: "core",
      merge: false,
      resolveKnownTags: false,
      stringKeys: true,
    });
    // The first line has the place. Further lines repeat the source.
    const faults = [...document.errors, ...document.warnings].map(({ message }) => message.replace(/:?\n.*/s, ""));
    visit(document, {
      Node: (_, node) => {
        if (!isAlias(node) && !node.anchor) return undefined;
        faults.push("anchors (&) and aliases (*) are not supported");
        return visit.BREAK;
      },
    });
    return { data: faults.length > 0 ? null : document.toJS({ maxAliasCount: 0 }), faults };
  } catch {
    // A file that is nested too deeply exhausts the stack.
    return { data: null, faults: ["it is not a YAML file that can be read"] };
  }
}

/** Says where a file is wrong, such as `models[0].prices[1].inputUsd must be a decimal in quotes`. */
function describeIssue(issue: z.core.$ZodIssue): string {
  const place = issue.path.map((part) => (typeof part === "number" ? `[${part}]` : `.${String(part)}`)).join("");
  const where = place.replace(/^\./, "") || "the file";
  if (issue.code !== "unrecognized_keys") return `${where} ${issue.message}`;
  const secret = issue.keys.find((key) => secretName.test(key));
  if (secret !== undefined) return `${where} has ${secret}: secrets don’t belong in this file`;
  return `${where} has unknown fields: ${issue.keys.join(", ")}`;
}
