import type { MetaArgs, MetaFunction } from "@remix-run/react";
import { createContext, useContext } from "react";

/** The product's brand, as shown on pages. */
export interface PageBrand {
  name: string;
  /** The URL of the mark; null for our own, which is drawn in the accent color. */
  mark: string | null;
  icon: { href: string; type: string };
  /** The stylesheet of the accent color; null for our own. */
  accent: string | null;
  /** The `mailto:` or `https:` URL of support; null if none is configured. */
  support: string | null;
}

export const BrandContext = createContext<PageBrand>({
  name: "",
  mark: null,
  icon: { href: "", type: "" },
  accent: null,
  support: null,
});

export function useBrand(): PageBrand {
  return useContext(BrandContext);
}

/** Returns the brand that the server has written into the document, for {@link BrandContext} in the browser. */
export function readDocumentBrand({ documentElement }: Document): PageBrand {
  return JSON.parse(documentElement.dataset.brand ?? "{}");
}

/** Our mark, a gate, in a box of 24 by 24, with a stroke width of 2.25. */
export const gatePath = "M4 21V11a8 8 0 0 1 16 0v10M9 21v-9a3 3 0 0 1 6 0v9M2.5 21h19";

/**
 * Returns a route's `meta`, which sets the page title followed by the product's name. @param title may depend on the
 * loader's data
 */
export function pageTitle<Loader = unknown>(
  title: string | ((data: MetaArgs<Loader>["data"]) => string),
): MetaFunction<Loader> {
  return ({ data, matches }) => [
    { title: appendProductName(typeof title === "string" ? title : title(data), matches[0]?.data) },
  ];
}

/**
 * Appends the product's name to a title.
 * @param site the root loader's data; undefined if the loader failed
 */
export function appendProductName(title: string, site: unknown): string {
  const name = (site as { brand?: PageBrand } | undefined)?.brand?.name;
  return name ? `${title} · ${name}` : title;
}
