// Inflates the weights of a compact figure and hands them to plotly; the bytes are in the page, no network is used.
(async function (graph, packed) {
  if (typeof DecompressionStream === "undefined") {
    graph.insertAdjacentText("beforebegin", "This picture needs a browser of 2023 or later (DecompressionStream).");
    return;
  }
  const inflate = (text) => {
    const deflated = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    return new Response(new Blob([deflated]).stream().pipeThrough(new DecompressionStream("deflate")));
  };
  const codes = new Uint8Array(await inflate(packed.bytes).arrayBuffer());
  const { x, y, shapes } = await inflate(packed.texts).json();
  // A code is the signed root of the weight in whole steps, `zero` added.
  const weights = Float32Array.from({ length: 256 }, (_, code) => {
    const root = (code - packed.zero) / packed.steps;
    return Math.sign(root) * root * root * packed.largest;
  });
  let at = 0;
  for (const index of packed.traces) {
    const z = [];
    for (let query = 0; query < packed.size; query++) {
      const keys = packed.causal ? query + 1 : packed.size; // later keys stay blank
      const row = new Float32Array(keys);
      for (let key = 0; key < keys; key++) row[key] = weights[codes[at++]];
      z.push(row);
    }
    // One image pixel a cell, scaled by the browser: fast, and no cell is skipped where cells are under a pixel.
    Object.assign(graph.data[index], { z: z, x: x, y: y, zsmooth: "fast" });
  }
  graph.layout.shapes = shapes;
  const crisp = () => {
    const wide = (axis) => axis._length / Math.abs(axis.range[1] - axis.range[0]) >= 1;
    for (const image of graph.querySelectorAll(".hm image")) {
      const { xaxis, yaxis } = graph._fullLayout._plots[image.closest(".subplot").classList[1]];
      image.style.imageRendering = wide(xaxis) && wide(yaxis) ? "pixelated" : "auto";
    }
  };
  graph.on("plotly_afterplot", crisp);
  await Plotly.redraw(graph);
  graph.setAttribute("data-drawn", "yes");
})(document.getElementById("{plot_id}"), $PACKED);
