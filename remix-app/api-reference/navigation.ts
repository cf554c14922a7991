import { tagsOf } from "./describe.ts";
import { areas, documentOf } from "./documents.ts";

/** Returns the areas and tags that every page of the reference lists. */
export function referenceAreas() {
  return areas.map((area) => {
    const document = documentOf(area);
    const tags = tagsOf(document).map(({ name, slug }) => ({ name, href: `/docs/api/${area}/${slug}` }));
    return {
      name: area,
      title: document.info.title.replace(/^Gatehouse /, "").replace(/^./, (first) => first.toUpperCase()),
      tags,
    };
  });
}
