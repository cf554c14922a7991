import type { AppLoadContext } from "@remix-run/server-runtime";
import { configuredProviders } from "../config/oauth-providers.ts";
import { lastUsedFirst, readLastUsedMethod } from "../session/complete-sign-in.ts";

/** The providers that a sign-in page offers, for its buttons. */
export interface OfferedProviders {
  /** The one that this browser signed in with last comes first, then the configured order. */
  providers: { name: string; label: string }[];
  lastUsed: string | null;
}

/** @param among the providers that somebody's account is linked to; every one that is on where it is left out */
export function offeredProviders(context: AppLoadContext, among?: readonly string[]): OfferedProviders {
  const last = readLastUsedMethod(context);
  const providers = configuredProviders(context.env)
    .filter(({ name }) => among?.includes(name) ?? true)
    .map(({ name, label }) => ({ name, label }));
  const lastUsed = providers.find(({ name }) => last === `oauth:${name}`)?.name ?? null;
  return { providers: lastUsedFirst(providers, ({ name }) => name === lastUsed), lastUsed };
}
