//! Texts to vectors, with the model of a bundle that edgepack made.
//!
//! Loads the bundle's own library, `lib/libembed.so` (`edgepack bundle --set library=true`), and needs no other crate.

use std::ffi::{CStr, CString, OsStr};
use std::fmt;
use std::os::raw::{c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};

#[link(name = "dl")]
extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlerror() -> *const c_char;
}

const RTLD_NOW: c_int = 2;
const MESSAGE: usize = 1024;

/// `embed_options` of embed.h.
#[repr(C)]
struct RawOptions {
    batch_size: usize,
    max_length: usize,
    dimension: usize,
    threads: c_int,
    prefix: *const c_char,
    check: c_int,
    public_key: *const c_char,
}

type Texts = *const *const u8;
type OpenFn = unsafe extern "C" fn(*const c_char, *const RawOptions, *mut *mut c_void, *mut c_char, usize) -> c_int;
type DimensionFn = unsafe extern "C" fn(*const c_void) -> usize;
type TextsFn = unsafe extern "C" fn(*const c_void, Texts, *const usize, usize, *mut f32, *mut c_char, usize) -> c_int;
type TokensFn =
    unsafe extern "C" fn(*const c_void, *const u8, *const usize, *mut u32, usize, *mut usize, *mut c_char, usize) -> c_int;
type SimilarityFn = unsafe extern "C" fn(*const c_void, Texts, *const usize, *mut f64, *mut c_char, usize) -> c_int;
type CloseFn = unsafe extern "C" fn(*mut c_void);

struct Functions {
    open: OpenFn,
    dimension: DimensionFn,
    texts: TextsFn,
    tokens: TokensFn,
    similarity: SimilarityFn,
    close: CloseFn,
}

/// What the library refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// As the program's exit codes: 2 a wish that the model cannot fulfil, 4 a damaged bundle, 5 a model that does not run.
    pub code: i32,
    pub message: String,
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// All zero and `None` is the bundle's own way.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Texts at once.
    pub batch_size: usize,
    /// Tokens that count of a text, special ones included.
    pub max_length: usize,
    /// Only the first so many numbers, for models that were trained for it.
    pub dimension: usize,
    /// Threads of the processor.
    pub threads: usize,
    /// `query` or `passage`: what the model wants before such a text.
    pub prefix: Option<String>,
    /// ECDSA P-256 in PEM: the bundle has to be signed with it.
    pub public_key: Option<String>,
    /// Another file than `lib/libembed.so` in the bundle's folder, for a bundle that is one file.
    pub library: Option<PathBuf>,
}

/// An open bundle. Any number of threads may use it at once; it is closed when it is dropped.
pub struct Bundle {
    functions: Functions,
    raw: *mut c_void,
    dimension: usize,
}

// As embed.h says of a bundle.
unsafe impl Send for Bundle {}
unsafe impl Sync for Bundle {}

impl Bundle {
    /// Opens a bundle's folder. The library stays loaded when the bundle is closed.
    pub fn open(folder: impl AsRef<Path>) -> Result<Bundle, Error> {
        Bundle::open_with(folder, &Options::default())
    }

    pub fn open_with(folder: impl AsRef<Path>, options: &Options) -> Result<Bundle, Error> {
        let folder = folder.as_ref();
        let own = folder.join("lib/libembed.so");
        let functions = load(options.library.as_ref().unwrap_or(&own))?;
        let text = |text: &Option<String>| text.as_ref().map(|text| c_string(text.as_ref())).transpose();
        let (place, prefix, key) = (c_string(folder.as_os_str())?, text(&options.prefix)?, text(&options.public_key)?);
        let asked = RawOptions {
            batch_size: options.batch_size,
            max_length: options.max_length,
            dimension: options.dimension,
            threads: c_int::try_from(options.threads).unwrap_or(c_int::MAX),
            prefix: prefix.as_ref().map_or(null(), |text| text.as_ptr()),
            check: 0,
            public_key: key.as_ref().map_or(null(), |text| text.as_ptr()),
        };
        let mut raw = null_mut();
        answer(|message, size| unsafe { (functions.open)(place.as_ptr(), &asked, &mut raw, message, size) })?;
        let dimension = unsafe { (functions.dimension)(raw) };
        Ok(Bundle { functions, raw, dimension })
    }

    /// Numbers in a vector.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// A vector for each text, in their order.
    pub fn embed<T: AsRef<str>>(&self, texts: &[T]) -> Result<Vec<Vec<f32>>, Error> {
        let (starts, lengths) = parts(texts);
        let count = texts.len().checked_mul(self.dimension).ok_or_else(|| Error {
            code: 2,
            message: format!("{} texts in one call are too many", texts.len()),
        })?;
        let mut numbers = vec![0f32; count];
        answer(|message, size| unsafe {
            (self.functions.texts)(
                self.raw,
                starts.as_ptr(),
                lengths.as_ptr(),
                texts.len(),
                numbers.as_mut_ptr(),
                message,
                size,
            )
        })?;
        Ok(numbers.chunks(self.dimension).map(<[f32]>::to_vec).collect())
    }

    /// The ids of a text's tokens, as the model takes them.
    pub fn tokens(&self, text: &str) -> Result<Vec<u32>, Error> {
        let (length, mut ids, mut count) = (text.len(), vec![0u32; 512], 0);
        loop {
            answer(|message, size| unsafe {
                (self.functions.tokens)(
                    self.raw,
                    text.as_ptr(),
                    &length,
                    ids.as_mut_ptr(),
                    ids.len(),
                    &mut count,
                    message,
                    size,
                )
            })?;
            if count <= ids.len() {
                ids.truncate(count);
                return Ok(ids);
            }
            ids.resize(count, 0);
        }
    }

    /// The cosine of the angle between the vectors of two texts.
    pub fn similarity(&self, first: &str, second: &str) -> Result<f64, Error> {
        let (starts, lengths) = parts(&[first, second]);
        let mut made = 0.0;
        answer(|message, size| unsafe {
            (self.functions.similarity)(self.raw, starts.as_ptr(), lengths.as_ptr(), &mut made, message, size)
        })?;
        Ok(made)
    }

    /// The same as dropping it.
    pub fn close(self) {}
}

impl Drop for Bundle {
    fn drop(&mut self) {
        unsafe { (self.functions.close)(self.raw) }
    }
}

impl fmt::Debug for Bundle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Bundle").field("dimension", &self.dimension).finish_non_exhaustive()
    }
}

fn parts<T: AsRef<str>>(texts: &[T]) -> (Vec<*const u8>, Vec<usize>) {
    texts.iter().map(|text| (text.as_ref().as_ptr(), text.as_ref().len())).unzip()
}

fn answer(call: impl FnOnce(*mut c_char, usize) -> c_int) -> Result<(), Error> {
    let mut message = [0 as c_char; MESSAGE];
    match call(message.as_mut_ptr(), MESSAGE) {
        0 => Ok(()),
        code => Err(Error { code, message: said(message.as_ptr()) }),
    }
}

fn said(message: *const c_char) -> String {
    unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned()
}

fn c_string(text: &OsStr) -> Result<CString, Error> {
    CString::new(text.as_bytes()).map_err(|_| Error { code: 2, message: format!("{text:?} has a NUL in it") })
}

fn load(library: &Path) -> Result<Functions, Error> {
    let path = c_string(library.as_os_str())?;
    let failed = || Error { code: 4, message: said(unsafe { dlerror() }) };
    let opened = unsafe { dlopen(path.as_ptr(), RTLD_NOW) };
    if opened.is_null() {
        return Err(failed());
    }
    let function = |name: &str| {
        let found = unsafe { dlsym(opened, c_string(name.as_ref())?.as_ptr()) };
        if found.is_null() {
            return Err(failed());
        }
        Ok(found)
    };
    // What embed.h declares these names to be.
    unsafe {
        Ok(Functions {
            open: std::mem::transmute::<*mut c_void, OpenFn>(function("embed_open")?),
            dimension: std::mem::transmute::<*mut c_void, DimensionFn>(function("embed_dimension")?),
            texts: std::mem::transmute::<*mut c_void, TextsFn>(function("embed_texts")?),
            tokens: std::mem::transmute::<*mut c_void, TokensFn>(function("embed_tokens")?),
            similarity: std::mem::transmute::<*mut c_void, SimilarityFn>(function("embed_similarity")?),
            close: std::mem::transmute::<*mut c_void, CloseFn>(function("embed_close")?),
        })
    }
}
