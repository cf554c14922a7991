import type { Catalogue, Entries } from "./catalogue.ts";
import { type Grant, grantChanges } from "./grants.ts";

export type Differences = {
  added: string[];
  changed: string[];
  removed: string[];
  /** The SQL names of objects and columns whose comments differ. */
  comments: string[];
  /** The statements that change privileges. */
  grants: string[];
};

/**
 * Compares the functions, views, triggers, comments and privileges of two databases.
 * @param governs returns whether to compare a privilege
 */
export function compareCatalogues(from: Catalogue, to: Catalogue, governs: (grant: Grant) => boolean): Differences {
  const keys = [...to.entries.keys()];
  const isSame = (key: string) => from.entries.get(key)?.definition === to.entries.get(key)?.definition;
  const added = keys.filter((key) => !from.entries.has(key));
  const removed = [...from.entries.keys()].filter((key) => !to.entries.has(key));
  // Privileges on added or removed objects are not listed as separate changes.
  const inOne = new Set([...added, ...removed].map(grantTarget));
  const counts = (grant: Grant) => governs(grant) && !inOne.has(grant.target);
  const [before, after] = [commentsOf(from.entries), commentsOf(to.entries)];
  const targets = new Set([...before.keys(), ...after.keys()]);
  return {
    added,
    changed: keys.filter((key) => from.entries.has(key) && !isSame(key)),
    removed,
    comments: [...targets].filter(
      (target) =>
        before.get(target)?.text !== after.get(target)?.text &&
        to.entries.has((after.get(target) ?? before.get(target))?.key ?? ""),
    ),
    grants: grantChanges(from.grants.filter(counts), to.grants.filter(counts)),
  };
}

function commentsOf(entries: Entries): Map<string, { key: string; text: string }> {
  return new Map(
    [...entries].flatMap(([key, { comments }]) => [...comments].map(([target, text]) => [target, { key, text }])),
  );
}

/** Returns an object's designation in grants, where views count as tables. */
function grantTarget(key: string): string {
  return key.replace(/^view /, "table ");
}

/** Returns one line for each difference. */
export function describeDifferences({ added, changed, removed, comments, grants }: Differences): string[] {
  const fresh = new Set(added);
  return [
    ...added.map((key) => `added    ${key}`),
    ...changed.map((key) => `changed  ${key}`),
    ...removed.map((key) => `removed  ${key}`),
    ...comments.filter((target) => !fresh.has(target)).map((target) => `comment  ${target}`),
    ...grants.map((statement) => `access   ${statement}`),
  ];
}
