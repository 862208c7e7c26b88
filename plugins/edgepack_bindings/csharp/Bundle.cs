// Texts to vectors, with the model of a bundle that edgepack made and its own library (`edgepack bundle --set library=true`). For .NET 6 and newer;
// it needs no package.
#nullable enable
using System;
using System.Collections.Generic;
using System.IO;
using System.Runtime.InteropServices;
using System.Text;
using System.Threading;

namespace Edgepack;

/// <summary>What the library refuses. The code is as the program's exit codes.</summary>
public sealed class EmbedException : Exception
{
    internal EmbedException(int code, string message) : base(message) => Code = code;

    public int Code { get; }
}

/// <summary>All zero and null is the bundle's own way.</summary>
public sealed record Options
{
    public int BatchSize { get; init; }
    public int MaxLength { get; init; }
    public int Dimension { get; init; }
    public int Threads { get; init; }

    /// <summary>"query" or "passage": what the model wants before such a text.</summary>
    public string? Prefix { get; init; }

    /// <summary>ECDSA P-256 in PEM: the bundle has to be signed with it.</summary>
    public string? PublicKey { get; init; }

    /// <summary>Another file than the library in the bundle's folder, for a bundle that is one file.</summary>
    public string? Library { get; init; }
}

/// <summary>An open bundle. Any number of threads may use it at once; Dispose waits for them.</summary>
public sealed class Bundle : IDisposable
{
    private const int MessageSize = 1024;

    private readonly Functions functions;
    private readonly ReaderWriterLockSlim use = new();
    private IntPtr bundle;

    private Bundle(Functions functions, IntPtr bundle)
    {
        this.functions = functions;
        this.bundle = bundle;
        Dimension = checked((int)functions.Dimension(bundle));
    }

    /// <summary>Numbers in a vector.</summary>
    public int Dimension { get; }

    /// <summary>Opens a bundle's folder. The library stays loaded when the bundle is closed.</summary>
    public static Bundle Open(string folder, Options? options = null)
    {
        options ??= new Options();
        string own = OperatingSystem.IsWindows() ? "embed.dll" : "libembed.so";
        var functions = new Functions(NativeLibrary.Load(Path.GetFullPath(options.Library ?? Path.Combine(folder, "lib", own))));
        IntPtr prefix = Marshal.StringToCoTaskMemUTF8(options.Prefix), key = Marshal.StringToCoTaskMemUTF8(options.PublicKey);
        try
        {
            var asked = new RawOptions
            {
                BatchSize = checked((nuint)options.BatchSize),
                MaxLength = checked((nuint)options.MaxLength),
                Dimension = checked((nuint)options.Dimension),
                Threads = options.Threads,
                Prefix = prefix,
                PublicKey = key,
            };
            var message = new byte[MessageSize];
            Require(functions.Open(Encoding.UTF8.GetBytes(folder + "\0"), in asked, out IntPtr bundle, message, MessageSize), message);
            return new Bundle(functions, bundle);
        }
        finally
        {
            Marshal.FreeCoTaskMem(prefix);
            Marshal.FreeCoTaskMem(key);
        }
    }

    /// <summary>A vector for each text, in their order.</summary>
    public float[][] Embed(IReadOnlyList<string> texts)
    {
        var own = new List<string>(texts).ToArray(); // another thread may change the list meanwhile
        if (own.Length > Array.MaxLength / Dimension)
            throw new ArgumentException($"{own.Length} texts in one call: at most {Array.MaxLength / Dimension}", nameof(texts));
        using var given = new Texts(own);
        var numbers = new float[given.Starts.Length * Dimension];
        Call((opened, message) => functions.Texts(opened, given.Starts, given.Lengths, (nuint)given.Starts.Length, numbers, message, MessageSize));
        var rows = new float[given.Starts.Length][];
        for (int row = 0; row < rows.Length; row++) rows[row] = numbers[(row * Dimension)..((row + 1) * Dimension)];
        return rows;
    }

    /// <summary>The ids of a text's tokens, as the model takes them.</summary>
    public uint[] Tokens(string text)
    {
        var ids = new uint[512];
        using var given = new Texts(new[] { text });
        nuint count;
        for (;;)
        {
            nuint found = 0;
            Call((opened, message) => functions.Tokens(opened, given.Starts[0], given.Lengths, ids, (nuint)ids.Length, out found, message, MessageSize));
            count = found;
            if (count <= (nuint)ids.Length) break;
            ids = new uint[count];
        }
        return ids[..(int)count];
    }

    /// <summary>The cosine of the angle between the vectors of two texts.</summary>
    public double Similarity(string first, string second)
    {
        double similarity = 0;
        using var given = new Texts(new[] { first, second });
        Call((opened, message) => functions.Similarity(opened, given.Starts, given.Lengths, out similarity, message, MessageSize));
        return similarity;
    }

    /// <summary>Closes the bundle. A second time does nothing.</summary>
    public void Dispose()
    {
        use.EnterWriteLock();
        try
        {
            if (bundle != IntPtr.Zero) functions.Close(bundle);
            bundle = IntPtr.Zero;
        }
        finally
        {
            use.ExitWriteLock();
        }
    }

    private void Call(Func<IntPtr, byte[], int> function)
    {
        var message = new byte[MessageSize];
        use.EnterReadLock();
        try
        {
            if (bundle == IntPtr.Zero) throw new ObjectDisposedException(nameof(Bundle));
            Require(function(bundle, message), message);
        }
        finally
        {
            use.ExitReadLock();
        }
    }

    private static void Require(int code, byte[] message)
    {
        if (code != 0) throw new EmbedException(code, Encoding.UTF8.GetString(message, 0, Array.IndexOf(message, (byte)0)));
    }

    /// <summary>Texts in UTF-8, at a place that stays.</summary>
    private sealed class Texts : IDisposable
    {
        private readonly GCHandle pinned;

        public Texts(string[] texts)
        {
            Starts = new IntPtr[texts.Length];
            Lengths = new nuint[texts.Length];
            var bytes = new MemoryStream();
            for (int at = 0; at < texts.Length; at++)
            {
                byte[] text = Encoding.UTF8.GetBytes(texts[at]);
                Lengths[at] = (nuint)text.Length;
                bytes.Write(text);
            }
            bytes.WriteByte(0);
            pinned = GCHandle.Alloc(bytes.ToArray(), GCHandleType.Pinned);
            IntPtr place = pinned.AddrOfPinnedObject();
            for (int at = 0; at < texts.Length; at++)
            {
                Starts[at] = place;
                place += (int)Lengths[at];
            }
        }

        public IntPtr[] Starts { get; }

        public nuint[] Lengths { get; }

        public void Dispose() => pinned.Free();
    }

    /// <summary>embed_options of embed.h.</summary>
    [StructLayout(LayoutKind.Sequential)]
    private struct RawOptions
    {
        public nuint BatchSize;
        public nuint MaxLength;
        public nuint Dimension;
        public int Threads;
        public IntPtr Prefix;
        public int Check;
        public IntPtr PublicKey;
    }

    /// <summary>What embed.h declares these names to be.</summary>
    private sealed class Functions
    {
        public readonly OpenFunction Open;
        public readonly DimensionFunction Dimension;
        public readonly TextsFunction Texts;
        public readonly TokensFunction Tokens;
        public readonly SimilarityFunction Similarity;
        public readonly CloseFunction Close;

        public Functions(IntPtr library)
        {
            T Named<T>(string name) where T : Delegate => Marshal.GetDelegateForFunctionPointer<T>(NativeLibrary.GetExport(library, name));
            Open = Named<OpenFunction>("embed_open");
            Dimension = Named<DimensionFunction>("embed_dimension");
            Texts = Named<TextsFunction>("embed_texts");
            Tokens = Named<TokensFunction>("embed_tokens");
            Similarity = Named<SimilarityFunction>("embed_similarity");
            Close = Named<CloseFunction>("embed_close");
        }

        [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
        public delegate int OpenFunction(byte[] directory, in RawOptions options, out IntPtr bundle, [In, Out] byte[] error, nuint errorSize);

        [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
        public delegate nuint DimensionFunction(IntPtr bundle);

        [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
        public delegate int TextsFunction(IntPtr bundle, IntPtr[] texts, nuint[] lengths, nuint count, [In, Out] float[] vectors, [In, Out] byte[] error, nuint errorSize);

        [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
        public delegate int TokensFunction(IntPtr bundle, IntPtr text, nuint[] length, [In, Out] uint[] ids, nuint room, out nuint count, [In, Out] byte[] error, nuint errorSize);

        [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
        public delegate int SimilarityFunction(IntPtr bundle, IntPtr[] texts, nuint[] lengths, out double similarity, [In, Out] byte[] error, nuint errorSize);

        [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
        public delegate void CloseFunction(IntPtr bundle);
    }
}
