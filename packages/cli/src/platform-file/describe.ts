import type { Comparison } from "./compare.ts";

/** The last change of an object in the audit log. */
export interface LastChange {
  /** An email address or the name of a service account. Null if the account was deleted, or for the command line. */
  by: string | null;
  at: string;
  serviceAccountId: string | null;
}

/** The signs of actions in a plan. */
export const signs = { create: "+", change: "~", remove: "-" } as const;
const verbs = { create: "to add", change: "to change", remove: "to remove" } as const;

/** Describes what applying a file would do, one line for each change and field. */
export function describePlan({ steps, unlisted }: Comparison): string[] {
  const lines = steps.flatMap((step) => {
    const { action, resource, differences, position, replaces } = step;
    return [
      `${signs[action]} ${resource.address}`,
      ...differences
        .filter(({ after }) => action === "change" || !isEmpty(after))
        .map(({ field, before, after }) =>
          action === "change"
            ? `    ${field}: ${describeValue(before)} → ${describeValue(after)}`
            : `    ${field}: ${describeValue(after)}`,
        ),
      ...(position === undefined ? [] : [`    position: ${position}`]),
      ...(replaces === undefined ? [] : [`    instead of: ${replaces}`]),
    ];
  });
  return [...lines, ...describeRest({ steps, unlisted })];
}

/**
 * Describes where a platform differs from a file, and who last changed it there.
 * @param options.lastChanges by target of the audit log
 * @param options.clientId that of the service account that compares, whose own changes need no mention
 */
export function describeDrift(
  { steps, unlisted }: Comparison,
  { lastChanges, clientId }: { lastChanges: ReadonlyMap<string, LastChange>; clientId: string },
): string[] {
  const lines = steps.flatMap(({ action, resource, differences, position }) => {
    const last = lastChanges.get(resource.target);
    const fields = (action === "change" ? differences : []).map(
      ({ field, before, after }) => `    ${field}: ${describeValue(after)} in the file, ${describeValue(before)} live`,
    );
    if (action === "change" && position !== undefined) fields.push(`    position: ${position} in the file`);
    if (last && `svc_${last.serviceAccountId}` !== clientId) {
      const actor = last.by ?? "a former admin or the command line";
      fields.push(`    last change of ${resource.target}: by ${actor} at ${last.at}`);
    }
    const remark = { create: " is missing", change: "", remove: " is not in the file" }[action];
    return [`${signs[action]} ${resource.address}${remark}`, ...fields];
  });
  return [...lines, ...describeRest({ steps, unlisted })];
}

function describeRest({ steps, unlisted }: Pick<Comparison, "steps" | "unlisted">): string[] {
  const counts = (["create", "change", "remove"] as const).flatMap((action) => {
    const count = steps.filter((step) => step.action === action).length;
    return count > 0 ? [`${count} ${verbs[action]}`] : [];
  });
  return [
    ...(unlisted.length > 0 ? [`Not in the file, and left as it is: ${unlisted.join("; ")}.`] : []),
    counts.length > 0 ? `${counts.join(", ")}.` : "No differences.",
  ];
}

function isEmpty(value: unknown): boolean {
  return value === null || value === false || (typeof value === "object" && Object.keys(value).length === 0);
}

function describeValue(value: unknown): string {
  if (value === null || value === undefined) return "none";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Array.isArray(value) && value.every((item) => typeof item !== "object")) return value.join(", ") || "none";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
