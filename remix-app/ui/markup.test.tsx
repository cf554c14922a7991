import fc from "fast-check";
import { ArrowDown } from "lucide-react";
import { createContext, type ReactElement, type ReactNode, useContext, useState } from "react";
import { renderToStaticMarkup, renderToString } from "react-dom/server";
import { expect, test } from "vitest";
import { Drawn, Unscripted } from "./drawn.tsx";
import { markupOf } from "./markup.ts";

const Words = createContext("nothing");
const Said = () => useContext(Words);

function Writer({ given, wrote }: { given: ReactNode; wrote: (markup: string | null) => void }) {
  wrote(markupOf(given));
  return null;
}

/** As a component writes it while React renders that. */
function written(elements: ReactNode): string | null {
  let markup: string | null = null;
  const wrote = (of: string | null) => {
    markup = of;
  };
  rendered(<Writer given={elements} wrote={wrote} />);
  return markup;
}

const rendered = (elements: ReactElement) =>
  renderToStaticMarkup(<Words.Provider value="something">{elements}</Words.Provider>);

/** The same elements with each one's attributes in one order, which React has another of for fields. */
function inOrder(html: string | null): string | undefined {
  return html?.replace(/<([a-z]\w*)((?: [\w-]+="[^"]*")+)/gi, (_, tag: string, attributes: string) =>
    [`<${tag}`, ...(attributes.match(/ [\w-]+="[^"]*"/g) ?? []).sort()].join(""),
  );
}

function Counter() {
  const [count] = useState(3);
  return <output>{count}</output>;
}

const plain: Record<string, ReactElement> = {
  "text, numbers and what is nothing": (
    <p>
      One, {2}, {true}
      {null}
      {undefined}
      {false}
      {0}
      {""}
      {["a", <b key="b">b</b>]}
    </p>
  ),
  "what means something in HTML": <p title={`"'<&>`}>{`</p><script>'"&amp;`}</p>,
  "components, with hooks and a context from outside": (
    <>
      <Said /> <Counter />
    </>
  ),
  "attributes there or not": (
    <form noValidate method="post" action="/a?b=1&c=2" onSubmit={() => {}}>
      <button type="submit" disabled hidden={false} formNoValidate formAction="/b">
        Go
      </button>
      <details open>
        <summary>More</summary>
      </details>
    </form>
  ),
  fields: (
    <label htmlFor="a">
      <input
        id="a"
        defaultValue={`"a"`}
        maxLength={8}
        autoComplete="off"
        inputMode="numeric"
        spellCheck={false}
        required
      />
      <input type="checkbox" defaultChecked value="on" />
      <input type="radio" defaultChecked={false} readOnly />
      <input defaultValue="" />
      <br />
      <hr className="line" />
    </label>
  ),
  "attributes of ARIA and data": (
    <div aria-hidden={true} aria-busy={false} aria-label="A" data-once data-count={3} role="status" tabIndex={-1} />
  ),
  drawings: (
    <svg viewBox="0 0 24 24" preserveAspectRatio="none" role="img" aria-label="Chart">
      <title>A & B</title>
      <ArrowDown aria-hidden="true" className="size-4" strokeWidth={1.5} />
      <line x1={0} x2="100%" y1={1.5} y2={0} vectorEffect="non-scaling-stroke" />
      <use href="#arrow" />
    </svg>
  ),
  "a script of ours": (
    // biome-ignore lint/security/noDangerouslySetInnerHtml: what is tested
    <script type="module" suppressHydrationWarning dangerouslySetInnerHTML={{ __html: "if (1 < 2 && 3) go();" }} />
  ),
  tables: (
    <table>
      <tbody>
        <tr>
          <th scope="row" colSpan={2}>
            <time dateTime="2026-01-01">1 January</time>
          </th>
        </tr>
      </tbody>
    </table>
  ),
};

test.each(Object.entries(plain))("%s are written as React writes them", (_, elements) => {
  expect(inOrder(written(elements))).toBe(inOrder(rendered(elements)));
});

test("any text is written as React writes it, within an element and an attribute", () => {
  fc.assert(
    fc.property(fc.string({ unit: "grapheme" }), (text) => {
      const element = <p title={text}>{text}</p>;
      expect(written(element)).toBe(rendered(element));
    }),
  );
});

const forReact: Record<string, ReactNode> = {
  "a provider": (
    <Words.Provider value="other">
      <Said />
    </Words.Provider>
  ),
  "a select": (
    <select defaultValue="a">
      <option value="a">A</option>
    </select>
  ),
  "a text area": <textarea defaultValue="a" />,
  "a style": <p style={{ color: "red" }} />,
  "an attribute of another name": <circle strokeDasharray="2" />,
  "a list in an attribute": <p title={[1, 2] as unknown as string} />,
};

test.each(Object.entries(forReact))("%s is left to React, with all around it", (_, elements) => {
  expect(written(<div>{elements}</div>)).toBeNull();
});

const Failing = () => {
  throw new RangeError("no");
};

test("what a component throws is thrown", () => {
  expect(() => written(<Failing />)).toThrow(RangeError);
});

test("a part of a page is written only where no script takes it over, and nothing in it is for React alone", () => {
  const page = (unscripted: boolean, contents: ReactNode) =>
    renderToString(
      <Unscripted.Provider value={unscripted}>
        <Drawn as="main" id="content" tabIndex={-1} className="wide">
          {contents}
        </Drawn>
      </Unscripted.Provider>,
    );
  const [start, end] = ['<main id="content" tabindex="-1" class="wide">', "</main>"];
  const plain = <p>a{1}</p>;
  const mixed = (
    <p>
      a{1}
      <Words.Provider value="b">
        <Said />
      </Words.Provider>
    </p>
  );
  // What React keeps for a script tells who wrote it.
  expect(page(true, plain)).toBe(`${start}<p>a1</p>${end}`);
  expect(page(false, plain)).toBe(`${start}<p>a<!-- -->1</p>${end}`);
  expect(page(true, mixed)).toBe(`${start}<p>a<!-- -->1<!-- -->b</p>${end}`);
});
