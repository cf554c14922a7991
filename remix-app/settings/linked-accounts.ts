import type { AppLoadContext } from "@remix-run/server-runtime";
import { type LinkedIdentity, type SignInMethods, withUnlinkable } from "../identity/sign-in-methods.ts";
import { allowProviderPages } from "../oauth/begin-oauth.ts";
import { configuredProviders, providerLabel } from "../oauth/providers.ts";
import { type LinkNotice, linkNoticeText } from "./link-result.ts";
import type { SettingsNotice } from "./settings-notice.ts";

/** A provider with the user's accounts there. */
export interface LinkableProvider {
  name: string;
  label: string;
  /** Whether it is on: an account may be linked to one that was, and can go. */
  offered: boolean;
  identities: LinkedIdentity[];
}

export interface LinkedAccounts {
  providers: LinkableProvider[];
  notice: LinkNotice | null;
}

/** What the linked-accounts card shows of the ways into an account; lets its forms lead to the providers. */
export function linkedAccountsOf(
  context: AppLoadContext,
  { methods, notice }: { methods: SignInMethods; notice: SettingsNotice | null },
): LinkedAccounts {
  const identities = withUnlinkable(context, methods);
  allowProviderPages(context);
  const offered = configuredProviders(context.env).map(({ name }): string => name);
  const linked = identities.map(({ provider }) => provider).filter((name) => name !== "email" && name !== "phone");
  const providers = [...new Set([...offered, ...linked])].map((name) => ({
    name,
    label: providerLabel(name),
    offered: offered.includes(name),
    identities: identities.filter(({ provider }) => provider === name),
  }));
  return { providers, notice: linkNoticeText(notice) };
}
