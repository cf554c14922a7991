import type { AppLoadContext } from "@remix-run/node";
import { configuredProviders } from "../config/oauth-providers.ts";
import { lastUsedFirst, readLastUsedMethod } from "../session/last-used-method.ts";

/** The providers whose buttons a sign-in page shows. */
export interface OfferedProviders {
  /** In the configured order, except that the provider last used in this browser comes first. */
  providers: { name: string; label: string }[];
  lastUsed: string | null;
}

/** @param among the providers linked to an account; if omitted, all enabled providers */
export function offeredProviders(context: AppLoadContext, among?: readonly string[]): OfferedProviders {
  const last = readLastUsedMethod(context);
  const providers = configuredProviders(context.env)
    .filter(({ name }) => among?.includes(name) ?? true)
    .map(({ name, label }) => ({ name, label }));
  const lastUsed = providers.find(({ name }) => last === `oauth:${name}`)?.name ?? null;
  return { providers: lastUsedFirst(providers, ({ name }) => name === lastUsed), lastUsed };
}
