// Says what the binding of C# gives: as tests/e2e/test_apps.py asks of every language.
using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Linq;
using Edgepack;

string Bits(float[][] rows) => string.Concat(rows.SelectMany(row => row).SelectMany(BitConverter.GetBytes).Select(each => each.ToString("x2")));

string Refused(string place, Options options, bool message)
{
    try
    {
        Bundle.Open(place, options).Dispose();
        return "opened";
    }
    catch (EmbedException error)
    {
        return $"true {error.Code}" + (message ? " " + error.Message : "");
    }
}

string folder = args[0], library = Path.Combine(folder, "lib", "libembed.so");
IReadOnlyList<string> texts = args[1..];
var bundle = Bundle.Open(folder);
string vectors = Bits(bundle.Embed(texts));
Console.WriteLine(bundle.Dimension);
Console.WriteLine(vectors);
Console.WriteLine(string.Join(",", bundle.Tokens(texts[0])));
Console.WriteLine(bundle.Similarity(texts[0], texts[1]).ToString("F6", CultureInfo.InvariantCulture));
Console.WriteLine(Enumerable.Range(0, 50).AsParallel().WithDegreeOfParallelism(8).All(_ => Bits(bundle.Embed(texts)) == vectors) ? "true" : "false");
Console.WriteLine(Refused(folder, new Options { Prefix = "answer" }, true));
Console.WriteLine(Refused(Path.Combine(folder, "model"), new Options { Library = library }, false));
Console.WriteLine(Refused(folder, new Options { PublicKey = "" }, false));
Console.WriteLine(Refused("", new Options { Library = library }, false));
Console.WriteLine(bundle.Embed(Array.Empty<string>()).Length);
bundle.Dispose();
bundle.Dispose();
Console.WriteLine("true");
try
{
    bundle.Embed(texts);
    Console.WriteLine("false");
}
catch (ObjectDisposedException)
{
    Console.WriteLine("true");
}
