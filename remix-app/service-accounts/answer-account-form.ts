import { type AppLoadContext, data, redirect } from "@remix-run/node";
import type { z } from "zod";
import type { Confirmation } from "../admin/confirmation.ts";
import { type FailedChange, failUnconfirmed, failWithErrors, failWithRefusal } from "../admin/failed-change.ts";
import { serviceClientId } from "../machines/service-tokens.ts";
import { endpointsOf } from "../openid/discovery.ts";
import { nameFields } from "./account-form.ts";
import type { AccountChangeOutcome } from "./change-account.ts";
import type { ServiceAccountOwner } from "./owner.ts";
import type { ServiceAccount } from "./service-accounts.ts";

/**
 * Handles a submitted form about a service account. Returns what to correct or the newly created secret. If there is
 * neither, redirects to the service account's page.
 * @param options.account the changed service account; null for a new one
 * @param options.destroys what the person must type, if the change destroys something
 */
export async function answerAccountForm<Values>(
  context: AppLoadContext,
  {
    owner,
    account,
    form,
    parsed,
    destroys = null,
    change,
  }: {
    owner: ServiceAccountOwner;
    account: Pick<ServiceAccount, "id" | "name"> | null;
    form: FormData;
    parsed: z.ZodSafeParseResult<Values>;
    destroys?: Confirmation | null;
    change: (values: Values) => Promise<AccountChangeOutcome>;
  },
) {
  const fail = (status: number, failed: FailedChange) => data({ created: null, failed: forget(failed) }, { status });
  if (!parsed.success) return fail(400, failWithErrors(parsed.error, form));
  const unconfirmed = failUnconfirmed(form, destroys);
  if (unconfirmed) return fail(400, unconfirmed);
  const result = await change(parsed.data);
  if (result.outcome === "refused") return fail(result.status, failWithRefusal(result, form));
  const id = account?.id ?? result.id ?? "";
  const page = `${owner.path}/${id}`;
  const { secret } = result;
  if (secret === null) throw redirect(`${page}?done`, 303);
  const name = account?.name ?? String(form.get("name"));
  const { token_endpoint: tokenEndpoint } = endpointsOf(context.env.BASE_URL);
  const created = { name, clientId: serviceClientId(id), secret, tokenEndpoint, page };
  return data({ created, failed: undefined }, { headers: { "Cache-Control": "private, no-store" } });
}

/** Never sends back a key that was refused, because it may be a private one. */
function forget({ message, fields, typed }: FailedChange): FailedChange {
  const { publicKey, ...others } = typed;
  const keeps = publicKey !== undefined && fields.publicKey === undefined;
  return { message, fields: nameFields(fields), typed: keeps ? { ...others, publicKey } : others };
}
