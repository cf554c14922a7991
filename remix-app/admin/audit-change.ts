import { formatDateTime } from "../http/date-text.ts";
import { formatExactCredits } from "../ui/format-amount.ts";
import { formatPriceUsd } from "./labels.ts";
import { fieldLabels, multiplierText } from "./model-preview.ts";
import { priceLabels } from "./prices/price-source.ts";

/** A field of an entry's states, as text. from or to is null if that state lacks the field. */
export interface FieldChange {
  field: string;
  label: string;
  from: string | null;
  to: string | null;
}

/** The recorded fields of an entry's target, before or after. */
export type State = Readonly<Record<string, unknown>>;

/** Labels of fields by their name in camel case. Others are shown by their name in the database. */
const labels: Readonly<Record<string, string>> = {
  ...fieldLabels,
  ...priceLabels,
  amountUsd: "Amount",
  approved: "Approved",
  approvedAt: "Approved at",
  balance: "Balance",
  banned: "Banned",
  bannedUntil: "Banned until",
  blockedUntil: "Blocked until",
  createdAt: "Created",
  credits: "Credits",
  deletion: "Deletion",
  description: "Description",
  displayName: "Display name",
  exceptions: "Exceptions",
  expiresAt: "Expires",
  file: "File",
  fileName: "File",
  initialCredits: "Initial credits",
  issuedOn: "Issued on",
  level: "Level",
  logoutUrl: "Logout URL",
  lowCredits: "Warn below",
  markup: "Markup",
  minInputTokens: "From input tokens",
  name: "Name",
  origins: "Origins",
  payer: "Paid by",
  plan: "Plan",
  position: "Order",
  postLogoutRedirectUris: "Post-logout redirect URIs",
  provider: "Provider",
  redirectUris: "Redirect URIs",
  reference: "Reference",
  requestsPerMinute: "Requests per minute",
  revokedAt: "Revoked",
  scopes: "Scopes",
  secrets: "Secrets",
  serviceTier: "Service tier",
  sessions: "Sessions",
  signUp: "Sign-up",
  tokensPerMinute: "Tokens per minute",
  totalAmount: "Total amount",
  valid: "Valid",
  workspace: "Workspace ID",
  workspaces: "Workspaces",
};

/** Fields whose text is a number of anything but dollars. */
const numberFields = new Set([
  ...["balance", "credits", "initialCredits", "lowCredits", "markup", "requestsPerMinute", "tokensPerMinute"],
  ...["contextWindow", "outputLimit", "defaultOutputLimit", "minInputTokens", "sessions"],
]);

/** Not shown, because other fields have the same content. */
const derivedFields = new Set(["as_offered", "updated_at"]);

const secretName = /(hash|secret|token|password)$/i;
const maxFields = 30;
/** About the length of all values of one entry, so that a page of 50 entries stays below 100 kB. */
const maxEntryLength = 500;
const minFieldLength = 40;

/** Leaves secrets out of JSON. The database records none; this keeps it so if a table gets a column for one. */
export function withoutSecrets(key: string, value: unknown): unknown {
  return secretName.test(key) ? undefined : value;
}

/** Lists the fields that differ between two states of an entry's target. Long values are cut. */
export function listChanges({ before, after }: { before: unknown; after: unknown }): FieldChange[] {
  const [old, now] = [readState(before), readState(after)];
  const names = [...new Set([...Object.keys(old ?? {}), ...Object.keys(now ?? {})])].filter(
    (name) => !derivedFields.has(name) && !secretName.test(name),
  );
  const changes = names.flatMap((name): FieldChange[] => {
    const field = camelCase(name);
    const [from, to] = [old, now].map((state) => (state && name in state ? valueText(field, state[name]) : null));
    if (from === undefined || to === undefined || (from ?? "none") === (to ?? "none")) return [];
    return [{ field: name, label: labels[field] ?? name, from, to }];
  });
  const shown = changes.slice(0, maxFields);
  const share = Math.floor(maxEntryLength / (2 * shown.length || 1));
  const length = Math.max(minFieldLength, share);
  const lines = shown.map(({ field, label, from, to }) => ({
    field,
    label: cut(label, 64),
    from: cut(from, length),
    to: cut(to, length),
  }));
  const more = changes.length - shown.length;
  return more > 0 ? [...lines, { field: "", label: `${more} more`, from: null, to: "in the CSV file" }] : lines;
}

/** Returns a state's fields. A state that isn't an object, such as an unreadable policy, has one field. */
export function readState(state: unknown): State | null {
  if (state === null || state === undefined) return null;
  return typeof state === "object" && !Array.isArray(state) ? (state as State) : { value: state };
}

/** Returns a column's name as a form has it: `input_usd_per_million` becomes `inputUsd`. */
export function camelCase(name: string): string {
  return name.replace(/_per_million$/, "").replaceAll(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}

const decimal = /^-?\d+(\.\d+)?$/;

/** Formats a field's value for people. @param field the field's name in camel case */
export function valueText(field: string, value: unknown): string {
  if (value === null || value === undefined || value === "") return "none";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Array.isArray(value)) return value.map(itemText).join(", ") || "none";
  if (typeof value === "object") return field === "tierMultipliers" ? multipliersOf(value) : itemText(value);
  const amount = String(value);
  if (decimal.test(amount)) {
    if (/usd$/i.test(field)) return formatPriceUsd(amount);
    if (numberFields.has(field))
      return formatExactCredits(amount.includes(".") ? amount.replace(/\.?0+$/, "") : amount);
  }
  if (field === "valid") return rangeText(amount);
  return timeText(amount);
}

function multipliersOf(value: object): string {
  return (
    multiplierText(Object.fromEntries(Object.entries(value).map(([tier, times]) => [tier, String(times)]))) || "none"
  );
}

/** Returns a list's item: a name if it has one, otherwise its JSON. */
function itemText(item: unknown): string {
  if (item === null || typeof item !== "object") return timeText(String(item));
  const { name, createdAt } = item as State;
  if (typeof name === "string") return name;
  if (typeof createdAt === "string") return `created ${timeText(createdAt)}`;
  return JSON.stringify(item, withoutSecrets);
}

/** Formats a time. Returns other texts unchanged. */
function timeText(value: string): string {
  const isTime = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d(:?\d\d)?)$/.test(value);
  return isTime ? formatDateTime(value) : value;
}

/** Formats a range of times as Postgres writes it: `["2026-11-30 10:00:00+00",)`. */
function rangeText(range: string): string {
  const [, from, until] = /^[[(]"?([^",]*)"?,"?([^",)]*)"?[)\]]$/.exec(range) ?? [];
  if (from === undefined || until === undefined) return range;
  return [from && `from ${timeText(from)}`, until && `until ${timeText(until)}`].filter(Boolean).join(" ") || "always";
}

/** Shortens a text to a length, and marks that something is missing. */
export function cut<Text extends string | null>(value: Text, length: number): Text {
  return (value !== null && value.length > length ? `${value.slice(0, length - 1).trimEnd()}…` : value) as Text;
}
