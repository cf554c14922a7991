import { z } from "zod";
import { JsonNumber } from "#shared/exact-json.ts";
import type { ModelChoices } from "../model-choice/model-choices.ts";
import { type KeyChanges, type KeySummary, type NewKey, newKeySchema } from "./key-schema.ts";

const trimToUndefined = (text: unknown) => (typeof text === "string" && text.trim() !== "" ? text.trim() : undefined);
const numberField = z.preprocess(trimToUndefined, z.coerce.number({ error: "Enter a number" }).optional());
const amountField = z
  .preprocess(trimToUndefined, z.string().optional())
  .transform((text) => text && new JsonNumber(text));
const listField = z
  .preprocess(trimToUndefined, z.string().optional())
  .transform((text) => text?.split(/[\s,]+/).filter(Boolean));
const dayField = z.preprocess(trimToUndefined, z.iso.date({ error: "Enter a day" }).optional());

/** The fields of a new key's form as strings, which {@link newKeySchema} then validates. */
const keyFormSchema = z.object({
  name: z.string().default(""),
  environment: z.preprocess(trimToUndefined, z.string().optional()),
  entityId: z.preprocess(trimToUndefined, z.string().optional()),
  expiresOn: dayField,
  requestsPerMinute: numberField,
  tokensPerMinute: numberField,
  monthlyBudgetUsd: amountField,
  allowedAddresses: listField,
  strict: z
    .literal("on")
    .optional()
    .transform((checked) => checked && true),
});

const messages: Record<string, string> = {
  name: "Enter a name of 1 to 100 characters",
  environment: "Use lower-case letters, digits and hyphens",
  entityId: "Use up to 128 letters, digits, dots, underscores, colons and hyphens",
  expiresAt: "Choose a day that hasn’t begun yet",
  requestsPerMinute: "Enter requests per minute as a whole number of at least 1, or leave it empty",
  tokensPerMinute: "Enter tokens per minute as a whole number of at least 1, or leave it empty",
  monthlyBudgetUsd: "Enter an amount in dollars, such as 50",
  allowedModels: "Select at most 100 models",
  allowedAddresses: "Enter IP addresses or CIDR ranges, such as 192.0.2.7 or 192.0.2.0/24, separated by spaces",
};

/** Maps a key's properties to their form fields if the names differ. */
const fieldNames: Record<string, string> = { expiresAt: "expiresOn", allowedModels: "models" };

export type KeyFormResult = { key: NewKey } | { errors: Record<string, string> };

/**
 * Reads the form of a new or changed key.
 * @param choices the choices of the form's model picker
 * @param expiresAt the key's present expiry, which may be within the day that the form shows
 * @returns the requested key, or one message per field, by name
 */
export function readKeyForm(
  fields: FormData,
  { choices, expiresAt: current = null }: { choices: ModelChoices; expiresAt?: string | null },
): KeyFormResult {
  const allowedModels = choices.mode === "selected" ? [...choices.allow] : undefined;
  const none: Record<string, string> =
    allowedModels?.length === 0 ? { models: "Select at least one model, or choose all models" } : {};
  const texts = keyFormSchema.safeParse(Object.fromEntries(fields));
  if (!texts.success) return { errors: { ...byField(texts.error.issues), ...none } };
  const { expiresOn, ...rest } = texts.data;
  const sameDay = current !== null && current.slice(0, 10) === expiresOn;
  const expiresAt = sameDay ? current : expiresOn && `${expiresOn}T00:00:00Z`;
  const key = newKeySchema.safeParse({ ...rest, expiresAt, allowedModels });
  if (key.success && !none.models) return { key: key.data };
  return { errors: { ...byField(key.error?.issues ?? []), ...none } };
}

/** Returns the fields of the form that changes a key, except the models. */
export function keyFields(key: KeySummary): Record<string, string> {
  return {
    name: key.name,
    environment: key.environment,
    expiresOn: key.expiresAt?.slice(0, 10) ?? "",
    monthlyBudgetUsd: key.budget?.limitUsd ?? "",
    requestsPerMinute: key.requestsPerMinute?.toString() ?? "",
    tokensPerMinute: key.tokensPerMinute?.toString() ?? "",
    allowedAddresses: key.allowedAddresses?.join(" ") ?? "",
    strict: key.strict ? "on" : "",
  };
}

/** Returns the changes that give a key all the settings of a form. */
export function keyChanges({ externalAppId: _, entityId: _label, ...key }: NewKey): Required<KeyChanges> {
  return {
    name: key.name,
    environment: key.environment ?? "production",
    expiresAt: key.expiresAt ?? null,
    allowedModels: key.allowedModels ?? null,
    allowedAddresses: key.allowedAddresses ?? null,
    requestsPerMinute: key.requestsPerMinute ?? null,
    tokensPerMinute: key.tokensPerMinute ?? null,
    monthlyBudgetUsd: key.monthlyBudgetUsd ?? null,
    strict: key.strict ?? false,
  };
}

/** Describes the settings that differ between a key and the changes that somebody wants to make. */
export function keyDifferences(
  key: Omit<KeyChanges, "monthlyBudgetUsd"> & Pick<KeySummary, "budget">,
  yours: Required<KeyChanges>,
): { label: string; theirs: string; yours: string }[] {
  const theirs = { ...key, monthlyBudgetUsd: key.budget?.limitUsd ?? null };
  return (Object.keys(settingLabels) as (keyof KeyChanges)[]).flatMap((name) => {
    const [one, other] = [settingText(theirs[name]), settingText(yours[name])];
    const isSame = name === "expiresAt" ? theirs.expiresAt === yours.expiresAt : one === other;
    return isSame ? [] : [{ label: settingLabels[name], theirs: one, yours: other }];
  });
}

const settingLabels: Record<keyof KeyChanges, string> = {
  name: "Name",
  environment: "Environment",
  expiresAt: "Expires",
  monthlyBudgetUsd: "Monthly budget in USD",
  requestsPerMinute: "Requests per minute",
  tokensPerMinute: "Tokens per minute",
  allowedAddresses: "Allowed IP addresses",
  allowedModels: "Allowed models",
  strict: "Strict mode",
};

function settingText(value: string | number | boolean | readonly string[] | null | undefined): string {
  if (value === null || value === undefined) return "no limit";
  if (typeof value === "boolean") return value ? "on" : "off";
  return typeof value === "object" ? value.join(", ") || "none" : String(value);
}

function byField(issues: readonly { path: PropertyKey[]; message: string }[]): Record<string, string> {
  return Object.fromEntries(
    issues.map(({ path, message }) => {
      const name = String(path[0]);
      return [fieldNames[name] ?? name, messages[name] ?? message];
    }),
  );
}
