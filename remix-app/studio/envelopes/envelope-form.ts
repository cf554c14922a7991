import { isLabel } from "#shared/labels.ts";
import { utcTime } from "#shared/utc-time.ts";
import { readBudgetAmount } from "../budgets/budget-form-fields.ts";
import { toUtcField } from "./envelope-fields.ts";
import type { Envelope, LimitChanges, NewEnvelope } from "./envelope-schema.ts";

const messages = {
  limitUsd: "Enter an amount in dollars, such as 5 or 12.50",
  calls: "Enter a whole number of at least 1, or leave it empty",
  endsAt: "Choose a time in UTC",
  label: "Use up to 128 letters, digits, dots, underscores, colons and hyphens, such as release-notes",
} as const;

type FormErrors = Partial<Record<keyof typeof messages, string>>;
type Typed = Readonly<Record<string, string>>;

/** Parses a field of at least one request. Returns null for an empty field, and undefined for an invalid one. */
function readCalls(typed: string): number | null | undefined {
  const text = typed.trim().replaceAll(",", "");
  if (text === "") return null;
  return /^[1-9]\d{0,8}$/.test(text) ? Number(text) : undefined;
}

function readUtcField(typed: string): string | undefined {
  const text = typed.trim();
  const time = utcTime.safeParse(/T\d{2}:\d{2}$/.test(text) ? `${text}:00Z` : `${text}Z`);
  return time.success ? time.data : undefined;
}

/**
 * Reads a form that changes limits. Fields that it doesn't have, and an end within the same minute, stay as they are.
 * @returns the changes, or one message per field
 */
export function readLimitForm(typed: Typed, current: Envelope): { changes: LimitChanges } | { errors: FormErrors } {
  const changes: LimitChanges = {};
  const errors: FormErrors = {};
  if (typed.limitUsd !== undefined) {
    const limitUsd = readBudgetAmount(typed.limitUsd);
    if (limitUsd === null) errors.limitUsd = messages.limitUsd;
    else changes.limitUsd = limitUsd;
  }
  if (typed.calls !== undefined) {
    const calls = readCalls(typed.calls);
    if (calls === undefined) errors.calls = messages.calls;
    else changes.calls = calls;
  }
  if (typed.endsAt !== undefined && typed.endsAt !== toUtcField(current.endsAt)) {
    const endsAt = readUtcField(typed.endsAt);
    if (endsAt === undefined) errors.endsAt = messages.endsAt;
    else changes.endsAt = endsAt;
  }
  return Object.keys(errors).length > 0 ? { errors } : { changes };
}

/** Reads the form of a new limit. */
export function readNewForm(typed: Typed): { opening: NewEnvelope } | { errors: FormErrors } {
  const label = (typed.label ?? "").trim();
  const limitUsd = readBudgetAmount(typed.limitUsd ?? "");
  const calls = readCalls(typed.calls ?? "");
  const endsAt = (typed.endsAt ?? "").trim() === "" ? null : readUtcField(typed.endsAt ?? "");
  const errors: FormErrors = {
    ...(label === "" || isLabel(label) ? {} : { label: messages.label }),
    ...(limitUsd === null || limitUsd === "0" ? { limitUsd: messages.limitUsd } : {}),
    ...(calls === undefined ? { calls: messages.calls } : {}),
    ...(endsAt === undefined ? { endsAt: messages.endsAt } : {}),
  };
  if (limitUsd === null || calls === undefined || endsAt === undefined || Object.keys(errors).length > 0) {
    return { errors };
  }
  const opening: NewEnvelope = { limitUsd, calls };
  if (typed.keyId) opening.keyId = typed.keyId;
  if (label !== "") opening.label = label;
  if (endsAt !== null) opening.endsAt = endsAt;
  return { opening };
}
