import type { AppLoadContext } from "@remix-run/node";
import { applyConsoleChange, type ConsoleChange, type ConsoleRefusal } from "../console-change.ts";
import type { FailedChange } from "../failed-change.ts";
import type { InfrastructureAdmin } from "../require-admin.ts";
import { priceField, routeField } from "./fields.ts";
import type { ModelSetup } from "./read-setup.ts";

/** Saves a whole model in one transaction. Only what differs is changed, and each change is in the audit log. */
export function saveModelSetup(
  context: AppLoadContext,
  { admin, setup, reason }: { admin: InfrastructureAdmin; setup: ModelSetup; reason: string },
): Promise<ConsoleChange> {
  const change = { ...setup, reason };
  return applyConsoleChange(context, { admin, name: "save_model_setup", change, refusals });
}

/** Returns what to correct after a refusal, at the field of the refused part. */
export function failAtPart(
  { message, part }: ConsoleRefusal,
  { setup, typed }: { setup: ModelSetup; typed: FailedChange["typed"] },
): FailedChange {
  const field = part === undefined ? undefined : fieldOfPart(part, setup);
  return field ? { message: null, fields: { [field]: [message] }, typed } : { message, fields: {}, typed };
}

/** Returns the form's field for a part that the database names, or undefined if the part has no field. */
function fieldOfPart(part: string, { routes, prices, version }: ModelSetup): string | undefined {
  const [, kind, of = ""] = /^(routes|prices|plans)\.(.+)$/.exec(part) ?? [];
  if (kind === "plans") return `plan_${of}`;
  if (kind === "routes" && routes[Number(of)]) return routeField(Number(of) + 1, "providerModel");
  const price = kind === "prices" ? prices[Number(of)] : undefined;
  if (price) return priceField(price.providerId, "inputUsd");
  return part === "settings" && version === null ? "id" : undefined;
}

const nothingChanged = "Nothing was changed.";
const refusals = {
  not_found: { status: 404, message: "This model doesn’t exist anymore." },
  id_taken: { status: 409, message: "Another model already has this ID." },
  default_changed: {
    status: 409,
    message: `Another model became the default of its kind after you opened this page. ${nothingChanged}`,
  },
  invalid: { status: 400, message: `These values aren’t valid together. ${nothingChanged}` },
  route_taken: { status: 409, message: `The model already has this route. ${nothingChanged}` },
  no_route: { status: 400, message: `The model has no route to this provider. ${nothingChanged}` },
  taken: { status: 409, message: `Another price takes effect at the same time. Save again. ${nothingChanged}` },
  no_grantee: { status: 409, message: `This plan doesn’t exist anymore. ${nothingChanged}` },
  too_many: { status: 400, message: `The model has too many of these. ${nothingChanged}` },
} as const;
