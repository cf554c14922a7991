import { lexer } from "marked";
import type { ReferenceArea } from "../ui/reference-page.tsx";
import { type Guide, type ResolveLink, renderGuide } from "./render-guide.ts";

/** The path of the index: `docs/README.md`, which lists the guides by role. */
export const indexPath = "/docs";

interface Source {
  /** The file's path in the repository, with a leading slash. */
  file: string;
  markdown: string;
}

/** The Markdown of all guides and decisions by the path that serves them. The build contains it. */
const sources: ReadonlyMap<string, Source> = new Map(
  Object.entries(
    import.meta.glob<string>(["../../docs/*.md", "../../docs/decisions/*.md"], {
      query: "?raw",
      import: "default",
      eager: true,
    }),
  ).map(([key, markdown]) => {
    const file = key.replace(/^(\.\.)(\/\.\.)/, "");
    return [pathOf(file), { file, markdown }];
  }),
);

export const guidePaths: readonly string[] = [...sources.keys()];

const rendered = new Map<string, Guide>();

/** Returns the guide at a path, or null. Renders each guide once. */
export function getGuide(path: string): Guide | null {
  const source = sources.get(path);
  if (!source) return null;
  const guide = rendered.get(path) ?? renderGuide(source.markdown, createResolver(source));
  rendered.set(path, guide);
  return guide;
}

/** The roles of the index with their guides, for the navigation of every guide. */
export const guidesByRole: readonly ReferenceArea[] = readRoles(sources.get(indexPath));

function readRoles(index: Source | undefined): ReferenceArea[] {
  const roles: { name: string; title: string; tags: { name: string; href: string }[] }[] = [];
  const resolve = index ? createResolver(index) : () => null;
  for (const token of index ? lexer(index.markdown) : []) {
    if (token.type === "heading" && token.depth === 2) {
      roles.push({ name: token.text.toLowerCase().replaceAll(" ", "-"), title: token.text, tags: [] });
    }
    if (token.type !== "table") continue;
    for (const [cell] of token.rows) {
      const link = cell?.tokens.find(({ type }: { type: string }) => type === "link");
      const href = link && resolve(link.href);
      if (href) roles.at(-1)?.tags.push({ name: link.text.replaceAll("`", ""), href });
    }
  }
  return roles.filter(({ tags }) => tags.length > 0);
}

/** Resolves a document's links. Files of the repository that the site does not serve are shown as text. */
function createResolver({ file }: Source): ResolveLink {
  return (href) => {
    if (/^https?:/.test(href)) return href;
    const { protocol, pathname, hash } = new URL(href, `file://${file}`);
    if (protocol !== "file:") return null;
    const [, area] = /^\/docs\/openapi\/(\w+\.json)$/.exec(pathname) ?? [];
    if (area) return `/docs/api/${area}`;
    const path = pathOf(pathname);
    return sources.has(path) ? `${path}${hash}` : null;
  };
}

function pathOf(file: string): string {
  return file.replace(/(\/README)?\.md$/, "");
}
