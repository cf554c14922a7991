import type { MetaArgs, MetaFunction } from "@remix-run/react";
import { createContext, useContext } from "react";

/** What pages show of the product's brand. */
export interface PageBrand {
  name: string;
  /** The address of the mark; null for our own, which is drawn in the accent. */
  mark: string | null;
  icon: { href: string; type: string };
  /** The stylesheet of the accent; null for the one of ours. */
  accent: string | null;
}

export const BrandContext = createContext<PageBrand>({
  name: "",
  mark: null,
  icon: { href: "", type: "" },
  accent: null,
});

/** The brand of this deployment. */
export function useBrand(): PageBrand {
  return useContext(BrandContext);
}

/** The brand that the server has written into the document, for {@link BrandContext} in the browser. */
export function brandOfDocument({ documentElement }: Document): PageBrand {
  return JSON.parse(documentElement.dataset.brand ?? "{}");
}

/** Our mark: a gate, in a box of 24 by 24, as strokes of 2.25. */
export const gatePath = "M4 21V11a8 8 0 0 1 16 0v10M9 21v-9a3 3 0 0 1 6 0v9M2.5 21h19";

/** Makes a route's `meta`: its title, then the product's name. @param title from the loader's data where it depends on it */
export function pageTitle<Loader = unknown>(
  title: string | ((data: MetaArgs<Loader>["data"]) => string),
): MetaFunction<Loader> {
  return ({ data, matches }) => [
    { title: withName(typeof title === "string" ? title : title(data), matches[0]?.data) },
  ];
}

/** @param site what the root loader found; undefined where it failed */
export function withName(title: string, site: unknown): string {
  const name = (site as { brand?: PageBrand } | undefined)?.brand?.name;
  return name ? `${title} · ${name}` : title;
}
