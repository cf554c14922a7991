import { useLocation, useNavigation } from "@remix-run/react";
import { type ReactNode, type RefObject, useEffect, useRef, useState } from "react";
import { Outline } from "./outline.tsx";

const slowAfterMs = 300;

/** The page that is on its way, how high what it takes the place of is, in pixels, and what had the focus then. */
interface NextPage {
  path: string;
  height: number;
  focused: Element | null;
}

/** The page that is on its way in place of this one, once that takes more than a moment. */
function useNextPage(content: RefObject<HTMLElement | null>): NextPage | undefined {
  const here = useLocation().pathname;
  const { state, location } = useNavigation();
  // Another view of the same page leaves what is there until it comes.
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
  // The page that has come is shown in the same moment, and what was scrolled to in it is found.
  return next?.path === path ? next : undefined;
}

/** Gives the focus back that hiding the content took, where its page stays after all. */
function useFocusBack(focused: Element | null | undefined): void {
  const here = useLocation().pathname;
  useEffect(() => {
    if (!(focused instanceof HTMLElement)) return;
    return () => {
      // Of a page that has come, the beginning has it (PageArrival); and what somebody chose meanwhile keeps it.
      if (location.pathname !== here || document.activeElement !== document.body) return;
      focused.focus({ preventScroll: true });
    };
  }, [focused, here]);
}

/** What a frame holds; while a page is on its way that takes more than a moment, the outline of that one. */
export function UntilNextPage({ children }: { children: ReactNode }) {
  const content = useRef<HTMLDivElement>(null);
  const next = useNextPage(content);
  useFocusBack(next?.focused);
  return (
    <>
      {/* Hidden and not taken away: where no page comes, what was typed is still there. */}
      <div ref={content} hidden={next !== undefined} className="space-y-6">
        {children}
      </div>
      {/* As high as that, so that nothing scrolls, and where it is seen however far down that was. */}
      {next ? (
        <div style={{ minHeight: next.height }}>
          <h1 className="sr-only">Loading</h1>
          <Outline path={next.path} />
        </div>
      ) : null}
    </>
  );
}
