import { useRouteLoaderData } from "@remix-run/react";
import type { ListedAccount } from "./account-choices.tsx";
import type { PageBrand } from "./brand.ts";
import type { Theme } from "./theme.ts";

/** What the root loader finds for every page. */
export interface Site {
  theme: Theme;
  requestId: string;
  brand: PageBrand;
  /** Whose session this is, for the browser's other tabs; only shown. Empty if signed out. */
  account: string;
  /** For the header and the account menu; null if signed out. */
  user: { email: string; displayName: string | null; infrastructureAdmin: boolean } | null;
  /** For the account menu. */
  accounts: (ListedAccount & { active: boolean })[];
}

/** Returns what the root loader found; undefined where it failed. */
export function useSite(): Site | undefined {
  return useRouteLoaderData("root") as Site | undefined;
}
