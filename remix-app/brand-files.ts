import { createHash } from "node:crypto";
import { Hono } from "hono";
import { accentSchemes } from "./config/accent.ts";
import type { Brand, MarkType } from "./config/brand.ts";
import { gatePath, type PageBrand } from "./ui/brand.ts";

const immutableCacheControl = "public, max-age=31536000, immutable";
const oneHourCacheControl = "public, max-age=3600";
const endings: Record<MarkType, string> = { "image/svg+xml": "svg", "image/png": "png" };

/**
 * Returns the brand data that pages show, and a server for the brand's files, whose URLs contain a hash of the content.
 */
export function createBrandFiles(brand: Brand): { page: PageBrand; files: Hono } {
  const files = new Hono();
  const schemes = accentSchemes(brand.accent);
  const gate = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" fill="none" stroke="${schemes.light.accent}" stroke-width="2.25" stroke-linecap="round"><style>@media (prefers-color-scheme: dark) { svg { stroke: ${schemes.dark.accent} } }</style><path d="${gatePath}"/></svg>`;
  files.get("/favicon.svg", (c) =>
    c.body(gate, 200, { "Content-Type": "image/svg+xml", "Cache-Control": oneHourCacheControl }),
  );
  const page: PageBrand = {
    name: brand.name,
    mark: null,
    icon: { href: "/favicon.svg", type: "image/svg+xml" },
    accent: null,
    support: brand.support,
  };
  if (brand.ownAccent) {
    const css = accentStyles(schemes);
    page.accent = `/brand/accent.${hashOf(css)}.css`;
    files.get(page.accent, (c) =>
      c.body(css, 200, { "Content-Type": "text/css", "Cache-Control": immutableCacheControl }),
    );
  }
  if (brand.mark) {
    const { mark } = brand;
    page.mark = "url" in mark ? mark.url : `/brand/mark.${hashOf(mark.bytes)}.${endings[mark.type]}`;
    page.icon = { href: page.mark, type: mark.type };
    if ("bytes" in mark) {
      files.get(page.mark, (c) =>
        c.body(new Uint8Array(mark.bytes), 200, { "Content-Type": mark.type, "Cache-Control": immutableCacheControl }),
      );
    }
  }
  return { page, files };
}

function accentStyles({ light, dark }: ReturnType<typeof accentSchemes>): string {
  const token = (name: string, key: keyof typeof light) => `--color-${name}:light-dark(${light[key]},${dark[key]})`;
  return `:root{${[token("accent", "accent"), token("accent-strong", "strong"), token("on-accent", "on"), token("accent-soft", "soft")].join(";")}}`;
}

function hashOf(content: string | Buffer): string {
  return createHash("sha256").update(content).digest("hex").slice(0, 12);
}
