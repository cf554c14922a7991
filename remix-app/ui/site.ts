import { useRouteLoaderData } from "@remix-run/react";
import type { ListedAccount } from "./account-choices.tsx";
import type { PageBrand } from "./brand.ts";
import type { Theme } from "./theme.ts";

/** The user that pages show, and what the user may open in the console. */
export interface SiteUser {
  email: string;
  displayName: string | null;
  /** The role finance opens only the platform's books. */
  consoleRole: "admin" | "finance" | null;
}

/** The root loader's data for every page. */
export interface Site {
  theme: Theme;
  requestId: string;
  brand: PageBrand;
  /**
   * The id of the active account, empty if signed out. It serves only for display and to notify the browser's other
   * tabs.
   */
  account: string;
  /** The session and its second step, for pages that were prefetched or kept; empty if signed out. */
  session: string;
  /** When the page was prefetched, as RFC 3339; null if it was not. */
  prefetchedAt: string | null;
  /** The user that the header and the account menu show; null if signed out. */
  user: SiteUser | null;
  /** The accounts to list in the account menu. */
  accounts: (ListedAccount & { active: boolean })[];
}

/** Returns the link to what the user may open in the console, or null. */
export function consoleLink(user: SiteUser | null | undefined): { href: string; label: string } | null {
  if (!user?.consoleRole) return null;
  return user.consoleRole === "finance"
    ? { href: "/admin/books", label: "Platform’s books" }
    : { href: "/admin", label: "Admin console" };
}

/** Returns the root loader's data, or undefined if it failed. */
export function useSite(): Site | undefined {
  return useRouteLoaderData("root") as Site | undefined;
}
