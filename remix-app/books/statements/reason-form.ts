import { openPointKinds, stateTexts } from "../../studio/costs/reconciliation.ts";
import { maxPointsPerKind, type PointGroup, type PointReason, reasonOf } from "./open-points.ts";

/** The maximum number of fields of the form: two for each reason, and its own. */
export const maxReasonFields = 2 * maxPointsPerKind * openPointKinds.length + 10;

/** Returns the name of the field for the reason at a position. It is also the field's id. */
export function reasonField(index: number): string {
  return `reason_${index}`;
}

/** Returns the name of the hidden field that says which open points the reason at a position is for. */
export function pointField(index: number): string {
  return `point_${index}`;
}

/** Returns the value of {@link pointField}. Providers' names have no spaces. */
export function pointName({ kind, provider }: Pick<PointGroup, "kind" | "provider">): string {
  return provider === null ? kind : `${kind} ${provider}`;
}

/** Reads the reasons for open points from the fields of a form. */
export function readReasons(fields: Record<string, string>): PointReason[] {
  return Object.entries(fields).flatMap(([name, value]) => {
    const index = /^point_(\d+)$/.exec(name)?.[1];
    const [kind, provider = null] = value.split(" ");
    if (index === undefined || !kind) return [];
    return [{ kind, provider, reason: (fields[reasonField(Number(index))] ?? "").trim() }];
  });
}

const maxReasonLength = 500;

/** Returns what is wrong with the reasons for open points, by field. */
export function reasonErrors(groups: readonly PointGroup[], reasons: readonly PointReason[]): Record<string, string> {
  return Object.fromEntries(
    groups.flatMap((group, index): [string, string][] => {
      const { length } = reasonOf(group, reasons);
      const state = stateTexts[group.kind].name;
      const name = group.provider === null ? state : `${group.provider}, ${state}`;
      if (length === 0) return [[reasonField(index), `Enter a reason for ${name}`]];
      return length > maxReasonLength ? [[reasonField(index), `Enter at most ${maxReasonLength} characters`]] : [];
    }),
  );
}
