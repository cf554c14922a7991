import { tagsOf } from "./describe.ts";
import { areas, documentOf } from "./documents.ts";

/** Areas and tags, as every page of the reference lists them. */
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
