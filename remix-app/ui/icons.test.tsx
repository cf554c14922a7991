import * as lucide from "lucide-react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import * as icons from "./icons.tsx";

const library = new Map(Object.entries(lucide) as [string, lucide.LucideIcon][]);
const withoutItsName = (svg: string) => svg.replace(/class="lucide [^"]*? ?size-4"/, 'class="size-4"');

test.each(Object.entries(icons))("%s is the library's", (name, Ours) => {
  const Library = library.get(name) ?? "svg";
  expect(attributesOf(renderToStaticMarkup(<Ours className="size-4" />))).toEqual(
    attributesOf(withoutItsName(renderToStaticMarkup(<Library aria-hidden className="size-4" />))),
  );
});

/** Its elements with their attributes, in whatever order. */
function attributesOf(svg: string): string[][] {
  return [...svg.matchAll(/<(\w+)([^>]*)>/g)].map(([, tag = "", attributes = ""]) => [
    tag,
    ...[...attributes.matchAll(/[\w-]+="[^"]*"/gi)].map(String).sort(),
  ]);
}
