import { linkSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { constants } from "node:os";
import path from "node:path";
import { z } from "zod";
import { codeOf, StackError } from "../errors.ts";
import { endGroups, isAlive, type OwnedProcess, type ProcessIdentity, startOf } from "./processes.ts";

const identity = z.object({ pid: z.number().int().positive(), startedAt: z.string() });
const contentShape = identity.extend({
  url: z.string().optional(),
  watchdog: identity.optional(),
  services: z.array(
    identity.extend({
      name: z.string(),
      stopSignal: z.custom<NodeJS.Signals>((value) => Object.hasOwn(constants.signals, String(value))),
    }),
  ),
});
type Content = z.infer<typeof contentShape>;

export type RunRecord = {
  /** Records the stack's URL, to show it if somebody tries to start a second stack. */
  announce: (url: string) => void;
  /**
   * Records the current processes, so that the next start can end any that this run leaves behind.
   * @throws StackError if the data directory no longer exists
   */
  update: (services: OwnedProcess[], watchdog: ProcessIdentity | undefined) => void;
  remove: () => void;
};

const leftoverLimitMs = 8_000;

const fileIn = (dataDir: string) => path.join(dataDir, "run.json");

/** Reads a record; undefined if it is missing or invalid. */
function read(file: string): Content | undefined {
  try {
    return contentShape.safeParse(JSON.parse(readFileSync(file, "utf8"))).data;
  } catch (error) {
    if (codeOf(error) === "ENOENT" || error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** Returns the live run on this data directory, if there is one. */
export function liveRun(dataDir: string): { pid: number; url: string } | undefined {
  const content = read(fileIn(dataDir));
  return content && isAlive(content) ? { pid: content.pid, url: content.url ?? "still starting" } : undefined;
}

/** Removes the record of a run that has ended. If another start has just written a new record, restores that record. */
function clearRecord(dataDir: string): void {
  const movedFile = path.join(dataDir, `run.${process.pid}.old.json`);
  try {
    renameSync(fileIn(dataDir), movedFile);
  } catch (error) {
    if (codeOf(error) === "ENOENT") return;
    throw error;
  }
  const content = read(movedFile);
  if (content && isAlive(content)) linkSync(movedFile, fileIn(dataDir));
  rmSync(movedFile, { force: true });
}

/**
 * Takes the data directory for this run, after ending what a crashed run left behind.
 * @throws StackError if another run is using it
 */
export async function takeDataDir(options: {
  dataDir: string;
  onLeftover: (names: string[]) => void;
}): Promise<RunRecord> {
  const { dataDir, onLeftover } = options;
  let content: Content = { pid: process.pid, startedAt: startOf(process.pid) ?? "", services: [] };
  const write = () => {
    const draft = path.join(dataDir, `run.${process.pid}.json`);
    writeFileSync(draft, JSON.stringify(content, null, 2), { mode: 0o600 });
    return draft;
  };

  for (;;) {
    const live = liveRun(dataDir);
    if (live) {
      throw new StackError(
        `The stack is running already on ${dataDir}: process ${live.pid}, ${live.url}\n` +
          "Stop it first (Ctrl-C there), or start another with its own data: npm start -- --data-dir <directory>",
      );
    }
    const leftover = read(fileIn(dataDir));
    if (leftover) {
      const endedServices = await endGroups([...leftover.services].reverse(), leftoverLimitMs);
      if (endedServices.length > 0) onLeftover(endedServices.map((one) => `${one.name} (${one.pid})`));
    }
    clearRecord(dataDir);
    const draft = write();
    try {
      linkSync(draft, fileIn(dataDir));
      break;
    } catch (error) {
      if (codeOf(error) !== "EEXIST") throw error;
    } finally {
      rmSync(draft, { force: true });
    }
  }

  const rewrite = (changes: Partial<Content>) => {
    content = { ...content, ...changes };
    try {
      renameSync(write(), fileIn(dataDir));
    } catch (error) {
      if (codeOf(error) !== "ENOENT") throw error;
      throw new StackError(
        `${dataDir} was deleted while the stack ran on it, and its database with it. Restart the stack.`,
      );
    }
  };
  return {
    announce: (url) => rewrite({ url }),
    update: (services, watchdog) => rewrite({ services, ...(watchdog ? { watchdog } : {}) }),
    remove() {
      rmSync(fileIn(dataDir), { force: true });
    },
  };
}
