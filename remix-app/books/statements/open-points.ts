import type { OpenPoint, OpenPointKind, PointReason } from "./statement.ts";

/** The name of each kind of open point, what it means, and reasons to choose from. */
export const openPointTexts: Record<OpenPointKind, { name: string; meaning: string; suggestions: readonly string[] }> =
  {
    nothing_reported: {
      name: "Nothing reported",
      meaning: "Metered, without imported costs or an invoice",
      suggestions: ["The provider doesn’t bill these runs", "The invoice is not issued yet"],
    },
    costs_missing: {
      name: "Costs missing",
      meaning: "Invoiced, without imported costs",
      suggestions: ["The provider has no cost export", "A subscription or fee without usage"],
    },
    invoice_missing: {
      name: "Invoice missing",
      meaning: "Imported, without an invoice",
      suggestions: [
        "The invoice is not issued yet",
        "Paid from prepaid credits",
        "Below the provider’s billing minimum",
      ],
    },
    invoice_differs: {
      name: "Invoice differs",
      meaning: "Invoiced − imported",
      suggestions: ["Tax or fees", "A credit note is expected", "Disputed with the provider"],
    },
    metering_differs: {
      name: "Metering differs",
      meaning: "Imported − metered",
      suggestions: [
        "Time zone of the provider’s days",
        "Runs with estimated usage",
        "Requests that bypass the gateway",
      ],
    },
    not_metered: {
      name: "Not metered",
      meaning: "Charged, without any run",
      suggestions: ["Used outside of the gateway", "A subscription or fee without usage"],
    },
  };

/** The maximum number of fields of the form: two for each of 200 open points, and its own. */
export const maxReasonFields = 410;

/** Returns the name of the field for the reason of the open point at a position. It is also the field's id. */
export function reasonField(index: number): string {
  return `reason_${index}`;
}

/** Returns the name of the hidden field that says which open point is at a position. */
export function pointField(index: number): string {
  return `point_${index}`;
}

/** Returns the value of {@link pointField}. Providers' names have no spaces. */
export function pointName({ kind, provider }: Pick<PointReason, "kind" | "provider">): string {
  return `${kind} ${provider}`;
}

/** Reads the reasons for open points from the fields of a form. */
export function readReasons(fields: Record<string, string>): PointReason[] {
  return Object.entries(fields).flatMap(([name, value]) => {
    const index = /^point_(\d+)$/.exec(name)?.[1];
    const [kind, provider] = value.split(" ");
    if (index === undefined || !kind || !provider) return [];
    return [{ kind, provider, reason: (fields[reasonField(Number(index))] ?? "").trim() }];
  });
}

/** Returns the reason that was entered for an open point, or an empty text. */
export function reasonOf(point: OpenPoint, reasons: readonly PointReason[]): string {
  return reasons.find((each) => pointName(each) === pointName(point))?.reason ?? "";
}

const maxReasonLength = 500;

/** Returns what is wrong with the reasons for open points, by field. */
export function reasonErrors(points: readonly OpenPoint[], reasons: readonly PointReason[]): Record<string, string> {
  return Object.fromEntries(
    points.flatMap((point, index): [string, string][] => {
      const { length } = reasonOf(point, reasons);
      const name = `${point.provider}, ${openPointTexts[point.kind].name}`;
      if (length === 0) return [[reasonField(index), `Enter a reason for ${name}`]];
      return length > maxReasonLength ? [[reasonField(index), `Enter at most ${maxReasonLength} characters`]] : [];
    }),
  );
}
