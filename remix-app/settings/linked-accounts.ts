import type { AppLoadContext } from "@remix-run/node";
import { configuredProviders, providerLabel } from "../config/oauth-providers.ts";
import { paginateInMemory } from "../http/list-page.ts";
import { allowProviderPages } from "../oauth/begin-oauth.ts";
import { failureText, type OAuthFailure, parseFailure } from "../oauth/failures.ts";
import { type LinkedIdentity, markUnlinkable, type SignInMethods } from "../session/sign-in-methods.ts";
import type { SettingsNotice } from "./settings-notice.ts";

/** A provider, with the user's accounts there. */
export interface LinkableProvider {
  name: string;
  label: string;
  /** Whether the provider is enabled. Accounts of a disabled provider can still be unlinked. */
  offered: boolean;
  identities: LinkedIdentity[];
}

export interface LinkedAccounts {
  providers: LinkableProvider[];
  /** The cursor of the next page of identities. */
  nextCursor: string | null;
  notice: LinkNotice | null;
}

const maxIdentities = 20;

/** Returns the data of the linked-accounts card, and allows its forms to redirect to the providers. */
export function linkedAccountsOf(
  context: AppLoadContext,
  { methods, notice, cursor }: { methods: SignInMethods; notice: SettingsNotice | null; cursor: string | null },
): LinkedAccounts {
  allowProviderPages(context);
  const offered = configuredProviders(context.env).map(({ name }): string => name);
  const linked = markUnlinkable(context, methods).filter(
    ({ provider }) => provider !== "email" && provider !== "phone",
  );
  const names = [...new Set([...offered, ...linked.map(({ provider }) => provider)])];
  const { records: identities, nextCursor } = paginateInMemory(
    linked.toSorted((a, b) => names.indexOf(a.provider) - names.indexOf(b.provider)),
    { limit: maxIdentities, cursor, idOf: ({ id }) => id, requestId: context.requestId },
  );
  const providers = names
    .map((name) => ({
      name,
      label: providerLabel(name),
      offered: offered.includes(name),
      identities: identities.filter(({ provider }) => provider === name),
    }))
    .filter(({ offered, identities }) => offered || identities.length > 0);
  return { providers, nextCursor, notice: linkNoticeText(notice) };
}

/** The result of linking or unlinking an account, shown on the card of linked accounts. */
export interface LinkNotice {
  tone: "good" | "warn";
  text: string;
}

const linkedAccountsCard = "linked-accounts";

/** Returns the notice about the result of linking or unlinking an account at a provider. */
export function linkNotice(provider: string, outcome: OAuthFailure | "linked" | "unlinked"): SettingsNotice {
  return { card: linkedAccountsCard, done: `${provider}.${outcome}` };
}

/** Returns the text of a notice on this card, or null for another card's notice. */
export function linkNoticeText(notice: SettingsNotice | null): LinkNotice | null {
  if (notice?.card !== linkedAccountsCard) return null;
  const [provider = "", outcome = ""] = notice.done.split(".");
  const label = providerLabel(provider);
  if (outcome === "linked") return { tone: "good", text: `Your ${label} account is linked. You can sign in with it.` };
  if (outcome === "unlinked")
    return { tone: "good", text: `Your ${label} account is unlinked. You can no longer sign in with it.` };
  const failure = parseFailure(outcome);
  return failure && { tone: "warn", text: failureText(failure, provider) };
}
