import type { AppLoadContext } from "@remix-run/server-runtime";
import { lastUsedFirst, readLastUsedMethod } from "./last-used-method.ts";
import { configuredProviders } from "./oauth-providers.ts";

/** The providers that a sign-in page offers, for its buttons. */
export interface OfferedProviders {
  /** The one that this browser signed in with last comes first, then the configured order. */
  providers: { name: string; label: string }[];
  lastUsed: string | null;
}

export function offeredProviders(context: AppLoadContext): OfferedProviders {
  const last = readLastUsedMethod(context);
  const providers = configuredProviders(context.env).map(({ name, label }) => ({ name, label }));
  const lastUsed = providers.find(({ name }) => last === `oauth:${name}`)?.name ?? null;
  return { providers: lastUsedFirst(providers, ({ name }) => name === lastUsed), lastUsed };
}
