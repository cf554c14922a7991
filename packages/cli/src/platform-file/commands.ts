import { basename } from "node:path";
import { createInterface } from "node:readline/promises";
import { Failure } from "../failure.ts";
import { readServiceAccount } from "../service-account.ts";
import { AdminApi, type LivePlatform } from "./admin-api.ts";
import { applySteps } from "./apply.ts";
import { type Comparison, comparePlatforms } from "./compare.ts";
import { describeDrift, describePlan, signs } from "./describe.ts";
import { readPlatformFile } from "./read-file.ts";
import type { Platform } from "./schema.ts";
import { writePlatform } from "./write-file.ts";

export type PlatformCommand =
  | { verb: "export" }
  | { verb: "plan" | "drift"; file: string; prune: boolean }
  | { verb: "apply"; file: string; prune: boolean; yes: boolean; reason: string | undefined };

/** The exit code of a comparison that found differences. */
const differs = 2;

/**
 * Runs a command that compares a platform with a file, as the service account of the environment.
 * @param options.print prints a line, with escapes for invisible characters
 * @param options.write writes text as it is
 * @returns the exit code
 * @throws Failure
 */
export async function runPlatformCommand(
  command: PlatformCommand,
  { print, write }: { print: (line: string) => void; write: (text: string) => void },
): Promise<number> {
  const account = await readServiceAccount(process.env);
  const api = new AdminApi(account);
  if (command.verb === "export") {
    const { platform, leftOut } = await api.readPlatform();
    write(writePlatform(platform));
    if (leftOut.length === 0) return 0;
    throw new Failure("refused", `The file is complete except for ${leftOut.join("; ")}. Correct them in the console.`);
  }
  const { file, prune } = command;
  const { platform, hash } = await readPlatformFile(file);
  const live = await api.readPlatform(platform);
  const comparison = compareWithFile(platform, { live, prune });
  if (command.verb === "drift") {
    const entries = Object.entries(live.targets);
    const lastChanges = new Map(entries.flatMap(([target, { last }]) => (last ? [[target, last] as const] : [])));
    for (const line of describeDrift(comparison, { lastChanges, clientId: account.clientId })) print(line);
  } else {
    for (const line of describePlan(comparison)) print(line);
  }
  const { steps } = comparison;
  if (steps.length === 0) return 0;
  if (command.verb !== "apply") return differs;
  const { host } = new URL(account.url);
  if (!command.yes) await confirm(host);
  const reason = command.reason ?? `apply ${basename(file).slice(0, 100)} ${hash.slice(0, 12)}`;
  const onDone = ({ action, resource }: (typeof steps)[number]) => print(`${signs[action]} ${resource.address}: done`);
  await applySteps(steps, { api, live, fileHash: hash, reason, onDone });
  const rest = compareWithFile(platform, { live: await api.readPlatform(platform), prune });
  if (rest.steps.length === 0) {
    print(`${host} is as ${file} says.`);
    return 0;
  }
  for (const line of describePlan(rest)) print(line);
  throw new Failure("refused", `${host} is not as ${file} says: somebody changed it meanwhile.`);
}

function compareWithFile(file: Platform, { live, prune }: { live: LivePlatform; prune: boolean }): Comparison {
  const { platform, at: now, deletableModels, leftOut } = live;
  const named = leftOut.filter((sentence) => namesOf(file).some((name) => sentence.startsWith(`${name}: `)));
  if (named.length > 0) {
    throw new Failure("configuration", `A file can’t state what the platform has: ${named.join("; ")}.`);
  }
  const comparison = comparePlatforms(file, { live: platform, now, prune, deletableModels });
  if (comparison.refusals.length > 0) throw new Failure("configuration", comparison.refusals.join(" "));
  return comparison;
}

/** Returns what a file names, such as "models gpt-5". */
function namesOf(file: Platform): string[] {
  return Object.entries(file).flatMap(([list, items]) =>
    Array.isArray(items)
      ? items.map((item) => `${list} ${"id" in item ? item.id : "name" in item ? item.name : item.providerId}`)
      : [],
  );
}

/** Asks for the platform's host. @throws Failure for another answer, or without a terminal */
async function confirm(host: string): Promise<void> {
  if (!process.stdin.isTTY) throw new Failure("usage", "To apply without a terminal, add --yes.");
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  const answer = await lines.question(`To make these changes, type ${host}: `);
  lines.close();
  if (answer.trim() !== host) throw new Failure("refused", "Nothing was changed.");
}
