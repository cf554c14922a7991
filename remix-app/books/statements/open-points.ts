import { listOpenPoints, type OpenPointKind, openPointKinds } from "../../studio/costs/reconciliation.ts";
import { sumByProvider } from "./figures.ts";
import type { OpenPoint, ProviderFigures, StatementException } from "./statement.ts";

/** What each kind of open point means, and reasons to choose from. */
export const openPointTexts: Record<OpenPointKind, { meaning: string; suggestions: readonly string[] }> = {
  not_metered: {
    meaning: "Charged, without any run",
    suggestions: ["Used outside of the gateway", "A subscription or fee without usage"],
  },
  nothing_reported: {
    meaning: "Metered, without imported costs or an invoice",
    suggestions: ["The provider doesn’t bill these runs", "The invoice is not issued yet"],
  },
  costs_missing: {
    meaning: "Invoiced, without imported costs",
    suggestions: ["The provider has no cost export", "A subscription or fee without usage"],
  },
  invoice_missing: {
    meaning: "Imported, without an invoice",
    suggestions: ["The invoice is not issued yet", "Paid from prepaid credits", "Below the provider’s billing minimum"],
  },
  invoice_differs: {
    meaning: "Invoiced − imported",
    suggestions: ["Tax or fees", "A credit note is expected", "Disputed with the provider"],
  },
  metering_differs: {
    meaning: "Imported − metered",
    suggestions: ["Time zone of the provider’s days", "Runs with estimated usage", "Requests that bypass the gateway"],
  },
};

/** Returns what is open in a month with these figures: the open points of the reconciliation, by provider. */
export function openPointsOf(figures: readonly ProviderFigures[]): OpenPoint[] {
  return sumByProvider(figures).flatMap((sums) => {
    const { provider, meteredUsd, importedUsd, invoicedUsd } = sums;
    return listOpenPoints(sums).map((point) => ({ provider, meteredUsd, importedUsd, invoicedUsd, ...point }));
  });
}

/** Open points with one reason. */
export interface PointGroup {
  kind: OpenPointKind;
  /** Null for all providers with an open point of the kind. */
  provider: string | null;
  points: readonly OpenPoint[];
}

/** The maximum number of open points of a kind with a reason each, so that the page stays small. */
export const maxPointsPerKind = 5;

/** Groups open points by the reason that they need: each has its own, or all of a kind if they are too many. */
export function groupPoints(points: readonly OpenPoint[]): PointGroup[] {
  return openPointKinds.flatMap((kind): PointGroup[] => {
    const own = points.filter((point) => point.kind === kind);
    if (own.length > maxPointsPerKind) return [{ kind, provider: null, points: own }];
    return own.map((point) => ({ kind, provider: point.provider, points: [point] }));
  });
}

/** The reason for a group of open points. */
export type PointReason = Pick<PointGroup, "provider"> & { kind: string; reason: string };

/** Returns the reason that was entered for a group of open points, or an empty text. */
export function reasonOf({ kind, provider }: PointGroup, reasons: readonly PointReason[]): string {
  return reasons.find((each) => each.kind === kind && each.provider === provider)?.reason ?? "";
}

/** Returns the reasons of an earlier close for groups of open points. A group has one if its points all had the same. */
export function earlierReasons(groups: readonly PointGroup[], earlier: readonly StatementException[]): PointReason[] {
  return groups.flatMap(({ kind, provider, points }) => {
    const reasons = new Set(
      points.map((point) => earlier.find((each) => each.kind === kind && each.provider === point.provider)?.reason),
    );
    const [reason] = reasons;
    return reasons.size === 1 && reason !== undefined ? [{ kind, provider, reason }] : [];
  });
}

/** Returns the open points with their reasons. A missing reason is an empty text. */
export function explainPoints(points: readonly OpenPoint[], reasons: readonly PointReason[]): StatementException[] {
  return groupPoints(points).flatMap((group) =>
    group.points.map((point) => ({ ...point, reason: reasonOf(group, reasons) })),
  );
}
