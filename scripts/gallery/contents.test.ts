import { expect, test } from "vitest";
import { renderGallery } from "./contents.ts";
import { states } from "./states.ts";

test("the gallery shows the earlier version of a picture before its new version", () => {
  const [state] = states;
  if (!state) throw new Error("There are no states.");
  const shot = { state, width: 320, scheme: "light", faults: [] as string[] } as const;
  const page = renderGallery(
    [
      { ...shot, file: "kept-320-light.png" },
      { ...shot, file: "new-320-light.png" },
    ],
    {
      before: new Set(["kept-320-light.png", "gone-320-light.png"]),
    },
  );
  expect([...page.matchAll(/<img src="([^"]+)"/g)].map(([, file]) => file)).toEqual([
    "before/kept-320-light.png",
    "kept-320-light.png",
    "new-320-light.png",
  ]);
});
