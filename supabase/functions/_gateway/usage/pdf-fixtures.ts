import { Buffer } from "node:buffer";
import { deflateSync } from "node:zlib";

type PdfOptions = {
  pages: number;
  /** Bytes of a picture on the first page, which compression would not shorten. */
  pictureBytes?: number;
  /** `table`: PDF 1.4 with a cross-reference table. `packed`: PDF 1.5 with its objects in a compressed stream. */
  form?: "table" | "packed";
  /** How many pages each node below the root of the page tree has. By default, the root has the pages. */
  pagesPerNode?: number;
  /** Text before the file's header, from whose beginning offsets count. */
  prefix?: string;
  /** Offset in the last line, to damage the cross-reference. */
  startOffset?: number;
};

/** Builds a PDF with a page tree (ISO 32000-1, 7.7.3), for tests. */
export function buildPdf({
  pages,
  pictureBytes = 0,
  form = "table",
  pagesPerNode,
  prefix = "",
  startOffset = 0,
}: PdfOptions): Buffer {
  const numbers = Array.from({ length: pages }, (_, index) => index + 4);
  const references = (objects: readonly number[]) => objects.map((object) => `${object} 0 R`).join(" ");
  const size = pagesPerNode ?? pages;
  const nodes = pagesPerNode ? Array.from({ length: Math.ceil(pages / size) }, (_, node) => pages + 4 + node) : [];
  const objects = new Map<number, string>([
    [1, "<< /Type /Catalog /Pages 2 0 R >>"],
    [2, `<< /Type /Pages /Kids [ ${references(pagesPerNode ? nodes : numbers)} ] /Count ${pages} >>`],
  ]);
  for (const [index, node] of nodes.entries()) {
    const kids = numbers.slice(index * size, (index + 1) * size);
    objects.set(node, `<< /Type /Pages /Parent 2 0 R /Kids [ ${references(kids)} ] /Count ${kids.length} >>`);
  }
  for (let page = 0; page < pages; page++) {
    objects.set(page + 4, "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] >>");
  }
  const picture = `<< /Type /XObject /Subtype /Image /Length ${pictureBytes} >>\nstream\n${"\xff".repeat(pictureBytes)}\nendstream`;
  return form === "table"
    ? withTable(body(new Map([[3, picture], ...objects]), prefix), startOffset)
    : packed(objects, picture, startOffset);
}

type Body = { text: string; offsets: Map<number, number> };

function body(objects: ReadonlyMap<number, string>, prefix = ""): Body {
  const offsets = new Map<number, number>();
  let text = `${prefix}%PDF-1.5\n%\xe2\xe3\xcf\xd3\n`;
  for (const [number, object] of objects) {
    offsets.set(number, text.length);
    text += `${number} 0 obj\n${object}\nendobj\n`;
  }
  return { text, offsets };
}

function withTable({ text, offsets }: Body, startOffset: number): Buffer {
  const entries = [...offsets].toSorted(([one], [other]) => one - other);
  const lines = entries.map(([, offset]) => `${String(offset).padStart(10, "0")} 00000 n \n`).join("");
  const table = `xref\n0 ${entries.length + 1}\n0000000000 65535 f \n${lines}`;
  const trailer = `trailer\n<< /Size ${entries.length + 1} /Root 1 0 R >>\n`;
  return Buffer.from(`${text}${table}${trailer}startxref\n${text.length + startOffset}\n%%EOF\n`, "latin1");
}

/** Puts all objects but the picture into one object stream, and the cross-reference into another, with a predictor. */
function packed(objects: ReadonlyMap<number, string>, picture: string, startOffset: number): Buffer {
  const numbers = [...objects.keys()];
  let texts = "";
  const header = numbers
    .map((number) => {
      const at = texts.length;
      texts += `${objects.get(number)} `;
      return `${number} ${at}`;
    })
    .join(" ");
  const holder = Math.max(...numbers) + 1;
  const stream = (dictionary: string, data: string | Buffer) => {
    const bytes = deflateSync(typeof data === "string" ? Buffer.from(data, "latin1") : data).toString("latin1");
    return `<< ${dictionary} /Filter /FlateDecode /Length ${bytes.length} >>\nstream\n${bytes}\nendstream`;
  };
  const objectStream = stream(`/Type /ObjStm /N ${numbers.length} /First ${header.length + 1}`, `${header}\n${texts}`);
  const { text, offsets } = body(
    new Map([
      [3, picture],
      [holder, objectStream],
    ]),
  );
  const rows = Array.from({ length: holder + 1 }, (_, number) => {
    const offset = offsets.get(number);
    const row = Buffer.alloc(6);
    row[0] = offset !== undefined ? 1 : objects.has(number) ? 2 : 0;
    row.writeUInt32BE(offset ?? (objects.has(number) ? holder : 0), 1);
    return row;
  });
  const coded = rows.map((row, index) => {
    const above = rows[index - 1] ?? Buffer.alloc(6);
    return Buffer.from([2, ...row.map((byte, at) => (byte - (above[at] ?? 0)) & 0xff)]);
  });
  const table = stream(
    `/Type /XRef /W [1 4 1] /Size ${holder + 1} /Root 1 0 R /DecodeParms << /Predictor 12 /Columns 6 >>`,
    Buffer.concat(coded),
  );
  const end = `${holder + 1} 0 obj\n${table}\nendobj\nstartxref\n${text.length + startOffset}\n%%EOF\n`;
  return Buffer.from(text + end, "latin1");
}
