import { z } from "zod";
import { JsonNumber } from "#shared/exact-json.ts";
import type { ModelChoices } from "../model-choice/model-choices.ts";
import { type NewKey, newKeySchema } from "./key-schema.ts";

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
 * Reads the form of a new key.
 * @param choices the choices of the form's model picker
 * @returns the requested key, or one message per field, by name
 */
export function readKeyForm(fields: FormData, choices: ModelChoices): KeyFormResult {
  const allowedModels = choices.mode === "selected" ? [...choices.allow] : undefined;
  const none: Record<string, string> =
    allowedModels?.length === 0 ? { models: "Select at least one model, or choose all models" } : {};
  const texts = keyFormSchema.safeParse(Object.fromEntries(fields));
  if (!texts.success) return { errors: { ...byField(texts.error.issues), ...none } };
  const { expiresOn, ...rest } = texts.data;
  const expiresAt = expiresOn ? `${expiresOn}T00:00:00Z` : undefined;
  const key = newKeySchema.safeParse({ ...rest, expiresAt, allowedModels });
  if (key.success && !none.models) return { key: key.data };
  return { errors: { ...byField(key.error?.issues ?? []), ...none } };
}

function byField(issues: readonly { path: PropertyKey[]; message: string }[]): Record<string, string> {
  return Object.fromEntries(
    issues.map(({ path, message }) => {
      const name = String(path[0]);
      return [fieldNames[name] ?? name, messages[name] ?? message];
    }),
  );
}
