import { formatDay } from "../http/date-text.ts";
import { formatExactMoney } from "../ui/format-amount.ts";
import { camelCase, cut, listChanges, readState, type State, valueText } from "./audit-change.ts";
import { formatQuantity } from "./labels.ts";
import { priceLabels } from "./prices/price-source.ts";

/** Summarizes an entry in one line: amounts, references and what changed. Null if its label says it all. */
export function summarizeChange({
  action,
  before,
  after,
}: {
  action: string;
  before: unknown;
  after: unknown;
}): string | null {
  const [old, now] = [readState(before) ?? {}, readState(after) ?? {}];
  const parts = summaries[action]?.(old, now) ?? [];
  return cut(parts.filter(Boolean).join(", "), 200) || null;
}

type Summary = (old: State, now: State) => (string | false)[];

const summaries: Readonly<Record<string, Summary>> = {
  "account.sign_out": ({ sessions }) => [formatQuantity(Number(sessions ?? 0), "session")],
  "account.ban": (_, { bannedUntil }) => [
    bannedUntil ? `until ${valueText("bannedUntil", bannedUntil)}` : "until it is lifted",
  ],
  "account.request_deletion": (_, { deletion }) => [`on ${valueText("deletion", deletion)}`],
  "account.cancel_deletion": (_, { banned }) => [banned === true && "still banned"],
  "account_invitation.add": (_, { expiresAt }) => [`until ${valueText("expiresAt", expiresAt)}`],
  "settings.sign_up": ({ signUp: from }, { signUp: to }) => [`${text(from)} → ${text(to)}`],
  "recovery.create": (_, { expires_at, single_use }) => [
    single_use === true && "until first used",
    `until ${valueText("expiresAt", expires_at)}`,
  ],
  "recovery.send": (_, { expiresAt }) => [`until ${valueText("expiresAt", expiresAt)}`],
  "address_block.lift": ({ level, blockedUntil }) => [
    `level ${text(level)}`,
    `blocked until ${valueText("blockedUntil", blockedUntil)}`,
  ],
  "plan.edit": describeFields,
  "plan.move_workspace": ({ plan: from }, { plan: to }) => [`${text(from)} → ${text(to)}`],
  "workspace.policy": describeFields,
  "workspace.budget": (old, now) => [
    `${text(now.subject ?? now.scope)} for ${text(now.period)}`,
    ...describeFields(old, now),
  ],
  "credits.grant": describeCredits,
  "credits.withdraw": describeCredits,
  "model.edit": describeFields,
  "model.add_route": (_, route) => [routeText(route)],
  "model.edit_route": (old, route) => [routeText(route), ...describeFields(old, route)],
  "model.remove_route": (route) => [routeText(route)],
  "model.add_price": (old, price) => [priceScope(price), ...describePrices(old, price)],
  "model.cancel_price": (price) => [priceScope(price), ...describePrices({}, price)],
  "model.grant": (_, grant) => [granteeText(grant)],
  "model.withdraw": (_, grant) => [granteeText(grant)],
  "provider.limit": describeFields,
  "books.record_invoice": (_, invoice) => [
    invoiceAmount(invoice),
    Boolean(invoice.issuedOn) && `issued on ${formatDay(text(invoice.issuedOn))}`,
    Boolean(invoice.replaces) && `replaces ${text(invoice.replaces)}`,
  ],
  "books.attach_document": (_, { fileName }) => [text(fileName)],
  "books.close_month": (_, { exceptions }) => [
    Array.isArray(exceptions) && exceptions.length > 0 && formatQuantity(exceptions.length, "exception"),
  ],
  "costs.import": describeImport,
  "costs.import_automatically": describeImport,
  "costs.request_generations": (_, { calls }) => [formatQuantity(Number(calls ?? 0), "call")],
  "app.edit": describeFields,
  "app.link_workspace": (_, { linked }) => [Boolean(linked) && `workspace ${text(linked)}`],
  "app.unlink_workspace": ({ unlinked }) => [Boolean(unlinked) && `workspace ${text(unlinked)}`],
};

function describeCredits(old: State, now: State): string[] {
  if (now.credits === undefined) return [];
  const [from, to] = [old, now].map(({ balance }) => valueText("balance", balance));
  const credits = valueText("credits", text(now.credits).replace("-", ""));
  return [`${credits} credits`, `balance ${from} → ${to}`, `reference ${text(now.reference)}`];
}

/**
 * Describes the first three changed fields: "Markup 1 → 1.2; Origins changed". Only short values are named. Fields of new
 * records say nothing about a change.
 */
function describeFields(old: State, now: State): string[] {
  if (Object.keys(old).length === 0) return [];
  const changes = listChanges({ before: old, after: now });
  const more = changes.length - 3;
  const parts = changes.slice(0, 3).map(({ label, from, to }) => {
    const values = [from ?? "none", to ?? "none"];
    return values.some((value) => value.length > 24) ? `${label} changed` : `${label} ${values.join(" → ")}`;
  });
  return [[...parts, ...(more > 0 ? [`and ${formatQuantity(more, "more change")}`] : [])].join("; ")];
}

/** Describes a price by its amounts. If it replaced another, only by those that changed. */
function describePrices(old: State, now: State): string[] {
  const replaces = "provider_id" in old;
  return Object.entries(now).flatMap(([name, amount]) => {
    const label = priceLabels[camelCase(name) as keyof typeof priceLabels]?.toLowerCase();
    if (!label) return [];
    const [from, to] = [valueText("inputUsd", old[name]), valueText("inputUsd", amount)];
    if (from === to) return [];
    return [replaces ? `${label} ${from} → ${to}` : `${label} ${to}`];
  });
}

function priceScope({ provider_id, service_tier, min_input_tokens }: State): string {
  return [
    text(provider_id),
    service_tier === "default" ? "" : `${text(service_tier)} tier`,
    Number(min_input_tokens) > 0 ? `from ${valueText("minInputTokens", min_input_tokens)} tokens` : "",
  ]
    .filter(Boolean)
    .join(" ");
}

function routeText({ provider_id, provider_model }: State): string {
  return `${text(provider_id)} ${text(provider_model)}`;
}

function granteeText({ plan, workspace }: State): string {
  return plan ? `plan ${text(plan)}` : `workspace ${text(workspace)}`;
}

function invoiceAmount({ amountUsd, totalAmount, currency }: State): string | false {
  const amount = text(totalAmount ?? amountUsd);
  if (!/^-?\d+(\.\d+)?$/.test(amount)) return false;
  const code = totalAmount === undefined ? "USD" : text(currency ?? "USD");
  return /^[A-Z]{3}$/.test(code) && formatExactMoney({ amount, currency: code });
}

function describeImport(_: State, { file, added, corrected, cleared }: State): (string | false)[] {
  const counts = { added, corrected, cleared };
  return [
    Boolean(file) && text(file),
    ...Object.entries(counts).map(
      ([name, days]) => Number(days) > 0 && `${formatQuantity(Number(days), "day")} ${name}`,
    ),
  ];
}

function text(value: unknown): string {
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
}
