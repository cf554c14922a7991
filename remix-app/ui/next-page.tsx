import { useLocation, useNavigation } from "@remix-run/react";
import { type ReactNode, type RefObject, useEffect, useRef, useState } from "react";
import { Outline } from "./outline.tsx";

const slowAfterMs = 300;

/** The page being loaded, the height in pixels of the content that it replaces, and the element that had the focus. */
interface NextPage {
  path: string;
  height: number;
  focused: Element | null;
}

/** Returns the page that has been loading for more than a moment and will replace this page, or undefined. */
function useNextPage(content: RefObject<HTMLElement | null>): NextPage | undefined {
  const here = useLocation().pathname;
  const { state, location } = useNavigation();
  // A navigation that keeps the path, such as a new query, shows the current content until the new content has loaded.
  const path = state === "loading" && location.pathname !== here ? location.pathname : undefined;
  const [next, setNext] = useState<NextPage>();
  useEffect(() => {
    if (path === undefined) return;
    const timer = setTimeout(() => {
      setNext({ path, height: content.current?.offsetHeight ?? 0, focused: document.activeElement });
    }, slowAfterMs);
    return () => {
      clearTimeout(timer);
      setNext(undefined);
    };
  }, [path, content]);
  // Hides the outline in the same render that shows the loaded page, so that the page's scroll position can be
  // restored.
  return next?.path === path ? next : undefined;
}

/** Restores the focus that was lost when the content was hidden, if the navigation fails. */
function useFocusBack(focused: Element | null | undefined): void {
  const here = useLocation().pathname;
  useEffect(() => {
    if (!(focused instanceof HTMLElement)) return;
    return () => {
      // A loaded page moves the focus to its beginning (PageArrival). An element focused in the meantime keeps the
      // focus.
      if (location.pathname !== here || document.activeElement !== document.body) return;
      focused.focus({ preventScroll: true });
    };
  }, [focused, here]);
}

/** Renders `children`. If the next page takes more than a moment to load, shows that page's outline instead. */
export function UntilNextPage({ children }: { children: ReactNode }) {
  const content = useRef<HTMLDivElement>(null);
  const next = useNextPage(content);
  useFocusBack(next?.focused);
  return (
    <>
      {/* Hidden rather than removed, so that typed values are kept if the navigation fails. */}
      <div ref={content} hidden={next !== undefined} className="space-y-6">
        {children}
      </div>
      {/* Keeps the height of the content, so that the scroll position does not change. */}
      {next ? (
        <div style={{ minHeight: next.height }}>
          <h1 className="sr-only">Loading</h1>
          <Outline path={next.path} />
        </div>
      ) : null}
    </>
  );
}
